package models

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"vsetrain/internal/system/options"
	"vsetrain/lab/try"
	"vsetrain/models/nn"
)

// What a network declares of itself is what it does.
func TestTraits(t *testing.T) {
	orders, sections := map[int]string{}, map[string]bool{}
	for _, f := range options.Fields(reflect.TypeFor[Options]()) {
		key, _ := options.Key(f)
		sections[key] = true
		if f.Tag.Get("doc") == "" {
			t.Errorf("no network has the options %s", key)
		}
	}
	for _, name := range Available() {
		o := DefaultOptions()
		o.Network, o.EmbedDim, o.WordDim = name, 32, 8
		traits := o.Traits()
		if traits.Title == "" || traits.Section != "" && !sections[traits.Section] ||
			len(traits.TextEncoders) == 0 || traits.Order < 1 || orders[traits.Order] != "" {
			t.Errorf("%s: %+v; order %d is that of %q too", name, traits, traits.Order, orders[traits.Order])
		}
		orders[traits.Order] = name
		for _, encoder := range traits.TextEncoders {
			o.TextEncoder = encoder
			if err := o.Validate(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if o.TextEncoder = slices.MinFunc(traits.TextEncoders,
			func(a, b string) int { return len(b) - len(a) }); o.TextEncoder == TextBert {
			o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Intermediate = 1, 4, 1, 4
		}
		shapes := func(regions int) (all []string, n Network) {
			n = try.Get(newNetwork(o, Dims{Regions: regions, Feature: 5, Vocab: 9}))(t)
			for _, p := range n.Params() {
				all = append(all, fmt.Sprint(p.Name, p.Shape))
			}
			return all, n
		}
		few, n := shapes(3)
		many, _ := shapes(4)
		if slices.Equal(few, many) != traits.AnyRegions {
			t.Errorf("%s: weights serve any number of regions: %v, declared %v", name, !traits.AnyRegions,
				traits.AnyRegions)
		}
		if _, embeds := n.(Embedder); embeds != traits.Embeds {
			t.Errorf("%s: an embedder: %v, declared %v", name, embeds, traits.Embeds)
		}
		if _, attends := n.(RegionEncoder); attends != traits.Attention {
			t.Errorf("%s: a region encoder: %v, declared %v", name, attends, traits.Attention)
		}
		if _, attends := n.(WordAttender); attends != traits.WordAttention {
			t.Errorf("%s: words attend: %v, declared %v", name, attends, traits.WordAttention)
		}
	}
	got := NamesWhere(func(t Traits) bool { return t.Embeds })
	for _, name := range []string{VSEPP, VSRN, VSEInf} {
		if !slices.Contains(got, name) {
			t.Errorf("%s is not among the embedders %q", name, got)
		}
	}
	o := DefaultOptions()
	o.Network, o.GSMN.Mode = GSMN, "dense"
	if traits := o.Traits(); traits.Name() != "GSMN (dense)" || traits.Dependencies || traits.ReadsEdges {
		t.Errorf("%q: %+v", traits.Name(), traits)
	}
}

// The numbers of optimised parameters equal the repositories'.
func TestParameterCounts(t *testing.T) {
	basic := func(o *Options) { o.CHAN.ImageEncoder = "basic" }
	for _, c := range []struct {
		network, encoder string
		vocab, want      int
		change           func(*Options)
	}{
		{SCAN, "bigru", 8481, 12_789_420, nil},  // Flickr30K
		{SCAN, "bigru", 11353, 13_651_020, nil}, // MS-COCO
		{CHAN, "bigru", 8481, 18_039_768, nil},
		{CHAN, "bigru", 11353, 18_901_368, nil},
		{CHAN, TextBert, 30522, 112_367_872, basic},
		{CHAN, "bigru", 8481, 18_039_768 - 6_298_624 + 14_694_400,
			func(o *Options) { o.CHAN.ImageEncoder = "transformer" }},
		{GSMN, "bigru", 8481, 12_792_760, nil},
		{VSEInf, "bigru", 8481, 14_392_600, nil},
		{VSEInf, "bigru", 11353, 15_254_200, nil},
		{VSEInf, TextBert, 30522, 113_970_752, nil},
	} {
		o := DefaultOptions()
		o.Network, o.TextEncoder = c.network, c.encoder
		if c.change != nil {
			c.change(&o)
		}
		n := try.Get(newNetwork(o, Dims{Regions: 36, Feature: 2048, Vocab: c.vocab}))(t)
		all, bert := 0, 0
		for _, s := range specs(n.Params()) {
			if !s.State {
				all += s.Size()
			}
			if s.Group == nn.BertGroup {
				bert += s.Size()
			}
		}
		if all != c.want {
			t.Errorf("%s, %s, %d words: %d parameters, want %d", c.network, c.encoder, c.vocab, all, c.want)
		}
		if p := bertParams(n); c.encoder == TextBert && (bert != 109_482_240 || len(p) != 199 || // bert-base-uncased
			bertName(p[0].Name) != bertWords || bertName(p[198].Name) != "pooler.dense.bias") {
			t.Errorf("%d parameters of BERT in %d tensors", bert, len(p))
		}
	}
}
