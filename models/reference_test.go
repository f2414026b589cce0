package models

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"vsetrain/batch"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/torchfile"
	"vsetrain/internal/system/options"
	"vsetrain/lab/try"
)

// smallNetworks are all networks with all their text encoders, at small sizes.
func smallNetworks() (list []Options) {
	for _, name := range Available() {
		for _, encoder := range published(name).TextEncoders {
			o := DefaultOptions()
			o.Network, o.TextEncoder, o.EmbedDim, o.WordDim, o.SGRAF.SimDim, o.VSRN.Hidden = name, encoder, 32, 8, 12, 6
			o.Bert.Layers, o.Bert.Hidden, o.Bert.Heads, o.Bert.Intermediate, o.Bert.Positions = 2, 12, 2, 6, 20
			list = append(list, o)
		}
	}
	return list
}

var smallDims = Dims{Regions: usualRegions, Feature: 5, Vocab: 30}

func smallModel(t *testing.T, o Options) *Model {
	t.Helper()
	m := try.Get(NewModel(newDevice(t, cpu.FP32), o, smallDims))(t)
	m.Init(7, nil)
	return m
}

// exported writes a model for its repository and reads the file back as PyTorch would.
func exported(t *testing.T, m *Model, namespace bool) (path string, top *torchfile.Dict) {
	t.Helper()
	path = filepath.Join(try.MemoryDir(t), "a.pth")
	from := &Checkpoint{Info: Info{Epoch: 3, Step: 70, Score: 50}}
	try.Do(t, ExportReference(path, m, from, ExportOptions{Namespace: namespace}))
	return path, try.Get(torchfile.Load(path))(t).(*torchfile.Dict)
}

// dictCopy is a copy of a dict, of which every entry is changed by a function.
func dictCopy(d *torchfile.Dict, entry func(k, v any) (any, any)) *torchfile.Dict {
	out := &torchfile.Dict{Ordered: d.Ordered}
	for k, v := range d.All() {
		out.Set(entry(k, v))
	}
	return out
}

func asIs(k, v any) (any, any) { return k, v }

// dictEntry is an entry of a dict.
func dictEntry[T any](d *torchfile.Dict, key string) T {
	v, _ := d.Get(key)
	return v.(T)
}

// saved writes a file of torch.save and opens it.
func saved(t *testing.T, v any, given Given) (*Reference, error) {
	t.Helper()
	path := filepath.Join(try.MemoryDir(t), "a.pth")
	try.Do(t, torchfile.Save(path, v))
	return OpenReference(path, given)
}

// restored is a model with the weights of a file.
func restored(t *testing.T, w Weights) *Model {
	t.Helper()
	m := try.Get(NewModel(newDevice(t, cpu.FP32), w.Network(), w.Sizes()))(t)
	try.Do(t, w.Restore(m))
	return m
}

// fixedScores are the scores of three images with four captions.
func fixedScores(t *testing.T, m *Model) []float32 {
	t.Helper()
	im, c := drawn("scores", smallDims, 3, 9, 5, 3, 2)
	edges := batch.Captions{EdgeStart: []int32{0}}
	for _, l := range c.Lengths {
		edges.Edges = append(edges.Edges, 0, l-1)
		edges.EdgeStart = append(edges.EdgeStart, int32(len(edges.Edges)/2))
	}
	if m.Options.Traits().ReadsEdges {
		c.Edges, c.EdgeStart = edges.Edges, edges.EdgeStart
	}
	return scoresOf(t, m, im, c)
}

// drawn are n images and captions of the given lengths.
func drawn(purpose string, d Dims, n int, lengths ...int) (batch.Images, batch.Captions) {
	r := philox.NewKey(1, purpose).Stream(0)
	im := batch.Images{N: n, Features: make([]float32, n*d.Regions*d.Feature)}
	for i := range im.Features {
		im.Features[i] = float32(r.Norm())
	}
	for range n * d.Regions * 4 {
		im.Boxes = append(im.Boxes, float32(r.Float64()))
	}
	var c batch.Captions
	for _, l := range lengths {
		words := make([]int32, l)
		for i := range words {
			words[i] = int32(r.IntN(d.Vocab))
		}
		c.Add(words)
	}
	return im, c
}

// others are values that an option may have in place of its own.
func others(x option) (list []any) {
	rule := options.RuleOf(x.field)
	switch v := x.value; {
	case v.Kind() == reflect.Bool:
		return []any{!v.Bool()}
	case v.Kind() == reflect.String:
		for _, s := range rule.Enum {
			if s != v.String() {
				list = append(list, s)
			}
		}
	case v.CanInt():
		for _, n := range []int64{v.Int() + 1, 2 * v.Int(), v.Int() - 1, v.Int() / 2} {
			if rule.AcceptsNumber(float64(n)) && n != v.Int() {
				list = append(list, int(n))
			}
		}
	case v.CanFloat():
		for _, f := range []float64{v.Float() * 0.7, v.Float() + 0.3} {
			if rule.AcceptsNumber(f) && f != v.Float() {
				list = append(list, f)
			}
		}
	}
	return list
}

// changed are the options with another value of one of them; none where no other can be used.
func changed(o Options, key string) (list []Options) {
	for x := range o.each() {
		if x.key != key {
			continue
		}
		for _, v := range others(x) {
			other := o
			Given{key: v}.apply(&other)
			if _, err := newNetwork(other, smallDims); other.Validate() == nil && err == nil {
				list = append(list, other)
			}
		}
	}
	return list
}

// travels reports whether an option belongs to the weights of the network; the network and its encoder are tried apart.
func (o *Options) travels(x option) bool {
	return o.concerns(x.key) && x.field.Tag.Get("json") != "-" && x.key != "network" && x.key != "text_encoder"
}

// An export that is read again has every option of the network, and gives the same scores to the bit: each of its
// options alone away from its default, and all of them together.
func TestEveryOptionTravels(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 1))
	tried := map[string]int{}
	for _, base := range smallNetworks() {
		var cases []Options
		for x := range base.each() {
			if !base.travels(x) {
				continue
			}
			list := changed(base, x.key)
			if len(list) == 0 && x.key != "word_frozen" { // which BERT has not
				t.Errorf("%s, %s: no other value of %s can be used", base.Network, base.TextEncoder, x.key)
			}
			tried[x.key] += len(list)
			cases = append(cases, list...)
		}
		for range 4 {
			all := base
			for x := range base.each() {
				if list := changed(all, x.key); base.travels(x) && x.key != "vsrn.caption" && len(list) > 0 {
					all = list[r.IntN(len(list))]
				}
			}
			cases = append(cases, all)
		}
		for _, o := range cases {
			m := smallModel(t, o)
			path, _ := exported(t, m, r.IntN(2) == 0)
			w := try.Get(OpenReference(path, nil))(t)
			if lost := o.stored().differing(w.Network()); len(lost) > 0 {
				t.Errorf("%s, %s: lost %v", o.Network, o.TextEncoder, lost)
				continue
			}
			if a := w.Assumed(); a != "" {
				t.Errorf("%s: %s", o.Network, a)
			}
			if e, s, score := w.Progress(); e != 3 || s != 70 || score != 50 {
				t.Errorf("%s: progress %v %v %v", o.Network, e, s, score)
			}
			if got, want := fixedScores(t, restored(t, w)), fixedScores(t, m); !slices.Equal(got, want) {
				t.Errorf("%s, %s: scores %v, want %v (%v)", o.Network, o.TextEncoder, got, want, o.differing(base))
			}
		}
	}
	t.Logf("%d options: %v", len(tried), tried)
}

// disguise returns a value as other programs store it.
func disguise(r *rand.Rand, v any) any {
	tensor := func(dtype string, b ...byte) any {
		shape := [][]int{nil, {1}, {1, 1}}[r.IntN(3)]
		x, err := torchfile.NewTensor(dtype, shape, b)
		if err != nil {
			panic(err)
		}
		return x
	}
	blanks := func(s string) string { return strings.Repeat(" ", r.IntN(3)) + s + strings.Repeat(" ", r.IntN(2)) }
	switch x := v.(type) {
	case bool:
		n := 0
		if x {
			n = 1
		}
		text := strings.Fields("false False FALSE no off 0 0.0 true True TRUE yes on 1 1.0")
		return []any{x, n, float64(n), blanks(text[7*n+r.IntN(7)]), tensor("BOOL", byte(n)), tensor("I8", byte(n)),
			tensor("I64", byte(n), 0, 0, 0, 0, 0, 0, 0)}[r.IntN(7)]
	case int:
		return []any{x, float64(x), blanks(fmt.Sprint(x)), fmt.Sprintf("%d.0", x), tensor("I16", byte(x), 0),
			tensor("U8", byte(x))}[r.IntN(6)]
	case float64:
		b := make([]byte, 8)
		for i, u := 0, math.Float64bits(x); i < 8; i++ {
			b[i] = byte(u >> (8 * i))
		}
		return []any{x, blanks(fmt.Sprint(x)), strconv.FormatFloat(x, 'e', -1, 64), tensor("F64", b...),
			fmt.Sprintf("np.float64(%v)", x), fmt.Sprintf("tensor(%v, dtype=torch.float64)", x)}[r.IntN(6)]
	case string:
		return []any{x, blanks(x), pickle.Bytes(x), "'" + x + "'"}[r.IntN(4)]
	}
	return v
}

// wrap returns options in a container that other programs use.
func wrap(r *rand.Rand, opt *torchfile.Dict) any {
	object := func(class string, of *torchfile.Dict) *pickle.Object {
		o := &pickle.Object{Class: class}
		for k, v := range of.All() {
			o.Attrs.Set(k, v)
		}
		return o
	}
	switch r.IntN(7) {
	case 0:
		return opt
	case 1:
		return object("argparse.Namespace", opt)
	case 2:
		d := dictCopy(opt, asIs)
		d.Ordered = true
		return d
	case 3:
		return object("easydict.EasyDict", opt)
	case 4: // OmegaConf: nodes with a value each
		content, o := &torchfile.Dict{}, &pickle.Object{Class: "omegaconf.dictconfig.DictConfig"}
		for k, v := range opt.All() {
			node := &pickle.Object{Class: "omegaconf.nodes.AnyNode"}
			node.Attrs.Set([]string{"_val", "val"}[r.IntN(2)], v)
			content.Set(k, node)
		}
		o.Attrs.Set("_content", content)
		return o
	case 5: // in sections
		sections, k := []*torchfile.Dict{{}, {}, {}}, 0
		for name, v := range opt.All() {
			sections[k%3].Set(name, v)
			k++
		}
		return map[string]any{"model": sections[0], "train": sections[1],
			"other": object("yacs.config.CfgNode", sections[2])}
	}
	plain := map[string]any{} // as JSON, where it can be written
	for k, v := range opt.All() {
		switch v.(type) {
		case nil, bool, int, int64, float64, string:
		default:
			return opt
		}
		plain[k.(string)] = v
	}
	b, err := json.Marshal(plain)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// An option has the value that its entry denotes, whatever the type of the entry and of what holds it.
func TestOptionsOfOtherTypes(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 2))
	for _, base := range smallNetworks() {
		_, top := exported(t, smallModel(t, base), false)
		for range 6 {
			want := base
			opt := dictCopy(dictEntry[*torchfile.Dict](top, "opt"), asIs)
			for x, ref := range base.referenced() {
				list := changed(want, x.key)
				if tensorDecides := x.key == "chan.heads"; len(list) > 0 && !tensorDecides {
					want = list[r.IntN(len(list))]
				}
				for y := range want.each() {
					if y.key == x.key {
						stored := map[string]any{}
						writeOptions(stored, want)
						opt.Set(ref.name, disguise(r, stored[ref.name]))
					}
				}
			}
			file := dictCopy(top, asIs)
			file.Set("opt", wrap(r, opt))
			if r.IntN(4) == 0 {
				file.Set("opt", nil)
				file.Set([]string{"args", "config", "hyper_parameters"}[r.IntN(3)], wrap(r, opt))
			}
			w, err := saved(t, file, nil)
			if err != nil {
				t.Errorf("%s, %s: %v", base.Network, base.TextEncoder, err)
				continue
			}
			if lost := want.stored().differing(w.Network()); len(lost) > 0 || w.Assumed() != "" {
				t.Errorf("%s, %s: lost %v of %v: %s", base.Network, base.TextEncoder, lost, file, w.Assumed())
			}
		}
	}
}

// An option that is missing, or has no meaning, is named with its key and value, and another one can be given.
func TestOptionsThatAreNotTold(t *testing.T) {
	for _, base := range smallNetworks() {
		_, top := exported(t, smallModel(t, base), false)
		entries := dictEntry[*torchfile.Dict](top, "opt")
		for x, ref := range base.referenced() {
			if ref.may {
				continue
			}
			for _, fault := range []any{"missing", nil, "None", &torchfile.List{Items: []any{1.0, 2.0}}, "a lot of"} {
				opt := dictCopy(entries, func(k, v any) (any, any) {
					switch {
					case k != ref.name:
						return k, v
					case fault == "missing":
						return "another", v
					}
					return k, fault
				})
				file := dictCopy(top, asIs)
				file.Set("opt", opt)
				w := &Reference{}
				err := w.parse(file)
				if fault == "a lot of" && x.value.Kind() == reflect.String { // another name for a form of the network
					try.Fails(t, err, ref.name, "--set model."+x.key+"=")
				} else if err != nil {
					t.Errorf("%s without %s: %v", base.Network, ref.name, err)
				} else if a := w.Assumed(); !strings.Contains(a, "option "+ref.name+" is ") ||
					!strings.Contains(a, fmt.Sprintf("model.%s is taken to be %v", x.key, x.value)) {
					t.Errorf("%s with %s %v: %q", base.Network, ref.name, fault, a)
				}
				for _, o := range changed(base, x.key) {
					for y := range o.each() {
						if y.key != x.key {
							continue
						}
						w := &Reference{given: Given{x.key: y.value.Interface()}}
						try.Do(t, w.parse(file))
						if n := w.Network(); w.Assumed() != "" || len(o.differing(n)) > 1 {
							t.Errorf("%s, given %s: %q, lost %v", base.Network, x.key, w.Assumed(), o.differing(n))
						}
					}
				}
			}
		}
	}
}

// Weights that fit two networks are refused with both names, unless an option that one of them has alone is there, or
// the network is given.
func TestWeightsThatFitTwoNetworks(t *testing.T) {
	for _, o := range smallNetworks() {
		if o.TextEncoder != "gru" || o.Network != SCAN && o.Network != VSEPP {
			continue
		}
		m := smallModel(t, o)
		_, top := exported(t, m, false)
		list := dictEntry[*torchfile.List](top, "model")
		for _, v := range []any{list, map[string]any{"model": list}, map[string]any{"model": list,
			"opt": map[string]any{"margin": 0.2, "no_imgnorm": false}}} {
			_, err := saved(t, v, nil)
			try.Fails(t, err, "scan and vsepp", "--set model.network=")
			w := try.Get(saved(t, v, Given{"network": o.Network}))(t)
			if got, want := fixedScores(t, restored(t, w)), fixedScores(t, m); !slices.Equal(got, want) {
				t.Errorf("%s: scores %v, want %v", o.Network, got, want)
			}
		}
		clue := map[string]string{SCAN: "raw_feature_norm", VSEPP: "measure"}[o.Network]
		value := map[string]string{SCAN: "clipped_l2norm", VSEPP: "cosine"}[o.Network]
		w := try.Get(saved(t, map[string]any{"model": list, "args": map[string]any{clue: value}}, nil))(t)
		if w.Network().Network != o.Network {
			t.Errorf("with %s it is %s", clue, w.Network().Network)
		}
	}
	o := smallNetworks()[slices.IndexFunc(smallNetworks(), func(o Options) bool { return o.Network == SAF })]
	_, saf := exported(t, smallModel(t, o), false)
	o.Network = SGR
	_, sgr := exported(t, smallModel(t, o), false)
	both := &torchfile.List{}
	for i := range 3 {
		d := &torchfile.Dict{}
		for _, from := range []*torchfile.Dict{sgr, saf} {
			for k, v := range dictEntry[*torchfile.List](from, "model").Items[i].(*torchfile.Dict).All() {
				d.Set(k, v)
			}
		}
		both.Items = append(both.Items, d)
	}
	if w, err := saved(t, map[string]any{"model": both}, nil); err == nil {
		if err = w.Restore(smallModel(t, o)); err == nil {
			t.Error("a file with both modules of SGRAF was read as one of them")
		}
	}
	a, b := dictEntry[any](saf, "model"), dictEntry[any](sgr, "model")
	_, err := saved(t, map[string]any{"model_A": a, "model_B": b}, nil)
	try.Fails(t, err, `"model_A"`, `"model_B"`, "torch.save")
}

// Weights are found in every form in which one reading is possible: under wrappers of modules in any order and depth,
// in another place or order, and in one dict.
func TestFormsOfOtherTrainingLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(50, 3))
	wrapped := func(name string) string {
		parts := strings.Split(name, ".")
		for range r.IntN(4) {
			parts = slices.Insert(parts, r.IntN(len(parts)), wrappers[r.IntN(len(wrappers))])
		}
		return strings.Join(parts, ".")
	}
	for _, o := range smallNetworks() {
		m := smallModel(t, o)
		want := fixedScores(t, m)
		_, top := exported(t, m, false)
		list, opt := dictEntry[*torchfile.List](top, "model"), dictEntry[any](top, "opt")
		for range 4 {
			var states []any
			for _, v := range list.Items {
				d := dictCopy(v.(*torchfile.Dict), func(k, x any) (any, any) { return wrapped(k.(string)), x })
				d.Ordered = r.IntN(2) == 0
				if r.IntN(3) == 0 {
					d.Set(wrapped("_extra_state"), map[string]any{"lr": 0.1})
				}
				states = append(states, d)
			}
			r.Shuffle(len(states), func(i, j int) { states[i], states[j] = states[j], states[i] })
			names := []string{"img_enc", "txt_enc", "sim_enc", "crit"}
			parts, merged := map[string]any{}, &torchfile.Dict{}
			outer := []string{"", "model.", "net.module.", "module.net."}[r.IntN(4)]
			for i, v := range states {
				parts[names[i]] = v
				for k, x := range v.(*torchfile.Dict).All() {
					merged.Set(outer+names[i]+"."+k.(string), x)
				}
			}
			with := func(key string, v any) any {
				return map[string]any{key: v, []string{"opt", "args"}[r.IntN(2)]: opt, "epoch": 3,
					"optimizer": map[string]any{"state": &torchfile.Dict{}, "param_groups": &torchfile.List{}}}
			}
			key := []string{"model", "state_dict", "model_state_dict", "net"}[r.IntN(4)]
			forms := []any{with(key, states), with(key, parts), with(key, merged)}
			separate := maps.Clone(parts)
			separate["opt"] = opt
			forms = append(forms, separate)
			if o.Network != VSEPP && o.Network != SCAN {
				flat := dictCopy(merged, asIs)
				flat.Set("epoch", 3)
				forms = append(forms, merged, states, parts, flat)
			}
			for i, v := range forms {
				given := Given{}
				if i > 3 && o.TextEncoder == TextBert {
					given["bert.heads"] = o.Bert.Heads
				}
				w, err := saved(t, v, given)
				if err != nil {
					t.Errorf("%s, %s, form %d: %v", o.Network, o.TextEncoder, i, err)
					continue
				}
				if i > 3 { // without options, which may be others than the model's
					continue
				}
				if got := fixedScores(t, restored(t, w)); !slices.Equal(got, want) {
					t.Errorf("%s, %s, form %d: scores %v, want %v", o.Network, o.TextEncoder, i, got, want)
				}
			}
		}
	}
}
