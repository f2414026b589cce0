package models

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/system/options"
	"vsetrain/lab/try"
)

// What the repositories count.
func TestParameterCountsOfSCANAndCHAN(t *testing.T) {
	count := func(vocab int, change func(o *Options)) (n int) {
		o := DefaultOptions()
		o.TextEncoder = "bigru"
		change(&o)
		net := try.Get(newNetwork(o, Dims{Regions: 36, Feature: 2048, Vocab: vocab}))(t)
		for _, s := range specs(net.Params()) {
			n += s.Size()
		}
		return n
	}
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"SCAN, Flickr30K", count(8481, func(o *Options) { o.Network = SCAN }), 12_789_420},
		{"SCAN, MS-COCO", count(11353, func(o *Options) { o.Network = SCAN }), 13_651_020},
		{"CHAN, Flickr30K", count(8481, func(o *Options) { o.Network = CHAN }), 18_039_768},
		{"CHAN, MS-COCO", count(11353, func(o *Options) { o.Network = CHAN }), 18_901_368},
		{"CHAN with BERT", count(30522, func(o *Options) {
			o.Network, o.TextEncoder, o.CHAN.ImageEncoder = CHAN, TextBert, "basic"
		}), 112_367_872},
		{"CHAN with a transformer", count(8481, func(o *Options) {
			o.Network, o.CHAN.ImageEncoder = CHAN, "transformer"
		}),
			18_039_768 - 6_298_624 + 14_694_400},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d parameters, expected %d", c.name, c.got, c.want)
		}
	}
}

// A checkpoint that is exported and read again has the options and weights it had.
func TestCHANReferenceKeepsOptionsAndWeights(t *testing.T) {
	for _, change := range []func(o *Options){
		func(o *Options) {},
		func(o *Options) {
			o.CHAN.ImageEncoder, o.CHAN.Coding, o.CHAN.Pooling, o.CHAN.Alpha = "basic", "vsa", "softmax", 0.25
		},
		func(o *Options) { o.CHAN.ImageEncoder, o.CHAN.Axis, o.CHAN.SizeAugment = "transformer", "batch", false },
		func(o *Options) { o.CHAN.ImageEncoder, o.CHAN.Coding, o.CHAN.NoImgNorm = "transformer", "tha", true },
		func(o *Options) {
			o.TextEncoder, o.WordDim, o.CHAN.Pooling, o.CHAN.Beta = TextBert, DefaultOptions().WordDim, "mean", 0.5
			o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Intermediate, o.Bert.Positions = 1, 4, 2, 6, 8
		},
	} {
		m := tinyModel(t, cpu.FP32, func(o *Options, d *Dims) {
			o.Network, o.TextEncoder, o.CHAN.Heads, d.Regions = CHAN, "bigru", 2, usualRegions
			change(o)
		})
		path := filepath.Join(t.TempDir(), "model_best.pth")
		try.Do(t, ExportReference(path, m, &Checkpoint{}, ExportOptions{}))
		r := try.Get(OpenReference(path, nil))(t)
		if r.options != m.Options || r.dims != m.Dims {
			t.Errorf("written as %+v %v, read as %+v %v", m.Options, m.Dims, r.options, r.dims)
			continue
		}
		other := try.Get(NewModel(newDevice(t, cpu.FP32), r.options, r.dims))(t)
		try.Do(t, r.Restore(other))
		if got, want := values(other), values(m); !slices.Equal(got, want) {
			t.Error("the weights changed")
		}
	}
}

// Options that cannot be used together are refused.
func TestCHANOptionsThatContradict(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"chan.heads": func(o *Options) { o.CHAN.Heads = 3 },
		"chan.mask_padding": func(o *Options) {
			o.CHAN.ImageEncoder, o.CHAN.Axis, o.CHAN.MaskPadding = "transformer", "batch", true
		},
		"text_encoder": func(o *Options) { o.TextEncoder = "gru" },
	} {
		o := DefaultOptions()
		o.Network, o.TextEncoder = CHAN, "bigru"
		try.Do(t, o.Validate())
		change(&o)
		var e *options.Error
		if err := o.Validate(); !errors.As(err, &e) || e.Key != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
