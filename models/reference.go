package models

import (
	"fmt"
	"slices"
	"strings"

	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/torchfile"
	"vsetrain/models/nn"
)

// Checkpoints of the reference repositories (train.py, save_checkpoint): a dict {epoch, model, best_rsum, opt, Eiters}
// whose "model" is a list of state dicts, one for each part of the network, under the names this package uses too.

// Reference is an opened checkpoint of a reference repository.
type Reference struct {
	Path    string
	options Options
	dims    Dims
	parts   []string
	states  []map[string]*torchfile.Tensor
	epoch   float64
	steps   int64
	score   float64 // mean of the recalls in "best_rsum"
	opt     map[string]any
}

// OpenReference reads a .pth or .pth.tar. Nothing in it is executed; whatever is not plain data or tensors is an error.
func OpenReference(path string) (*Reference, error) {
	v, err := torchfile.Load(path)
	if err != nil {
		return nil, err
	}
	r := &Reference{Path: path}
	if err := r.parse(v); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Reference) parse(v any) error {
	top, ok := v.(*torchfile.Dict)
	if !ok {
		return fmt.Errorf("expected a dict with a list \"model\" of state dicts, as the reference repositories "+
			"write, found a %s", pickle.TypeName(v))
	}
	list, there := top.Get("model")
	items, ok := pickle.Items(list)
	if !ok {
		return fmt.Errorf("not a checkpoint of a reference repository: expected a list of state dicts under the "+
			"key \"model\", found %s", instead(top, list, there))
	}
	for i, it := range items {
		d, ok := it.(*torchfile.Dict)
		if !ok {
			return fmt.Errorf("expected state dict %d of \"model\" to be a dict, found a %s", i, pickle.TypeName(it))
		}
		state := map[string]*torchfile.Tensor{}
		for k, v := range d.All() {
			name, okName := pickle.Text(k)
			t, okTensor := v.(*torchfile.Tensor)
			if !okName || !okTensor {
				return fmt.Errorf("state dict %d: expected tensors by name, found a %s under %v", i, pickle.TypeName(v),
					k)
			}
			if strings.HasSuffix(name, ".num_batches_tracked") || strings.HasSuffix(name, ".position_ids") {
				// a counter of PyTorch's batch norms, and the numbers from 0 on in some versions of BERT: without
				// effect
				continue
			}
			state[strings.TrimPrefix(name, "module.")] = t
		}
		r.states = append(r.states, state)
	}
	r.epoch, r.score = number(top, "epoch"), number(top, "best_rsum")
	r.steps = int64(number(top, "Eiters"))
	opt, _ := top.Get("opt")
	r.opt = optionsOf(opt)
	return r.recognise(r.opt)
}

// Batch is the batch_size of the checkpoint's options, 0 where there is none.
func (r *Reference) Batch() int {
	n, _ := r.opt["batch_size"].(int64)
	return int(n)
}

// settings are the options of the checkpoint that are plain values.
func (r *Reference) settings() map[string]any {
	plain := map[string]any{}
	for name, v := range r.opt {
		switch v.(type) {
		case bool, int64, float64, string:
			plain[name] = v
		}
	}
	return plain
}

// instead describes what a dict holds in place of a list under "model".
func instead(top *torchfile.Dict, model any, there bool) string {
	if there {
		return "a " + pickle.TypeName(model) + " there"
	}
	var keys []string
	for k := range top.All() {
		name, ok := pickle.Text(k)
		if !ok {
			name = pickle.TypeName(k)
		}
		if len(keys) == 6 {
			keys = append(keys, "...")
			break
		}
		keys = append(keys, fmt.Sprintf("%.40q", name))
	}
	if len(keys) == 0 {
		return "an empty dict"
	}
	return "a dict with the keys " + strings.Join(keys, ", ")
}

func number(d *torchfile.Dict, key string) float64 {
	v, _ := d.Get(key)
	switch x := v.(type) {
	case int64:
		return float64(x)
	case float64:
		return x
	case *torchfile.Tensor: // a zero-dimensional tensor or NumPy scalar
		if f, err := x.Float64s(); err == nil && len(f) == 1 {
			return f[0]
		}
	}
	return 0
}

// optionsOf returns the options of a Namespace or dict as a map.
func optionsOf(v any) map[string]any {
	out := map[string]any{}
	var attrs *torchfile.Dict
	switch x := v.(type) {
	case *torchfile.Namespace:
		attrs = &x.Attrs
	case *torchfile.Dict:
		attrs = x
	default:
		return out
	}
	for k, v := range attrs.All() {
		if name, ok := pickle.Text(k); ok {
			out[name] = v
		}
	}
	return out
}

// format is how the reference repository of a network writes its checkpoints. The file of a network adds its own to
// formats.
type format struct {
	// matches reports whether the state dicts are of this network; read finds its options and sizes out.
	matches func(r *Reference) bool
	read    func(r *Reference, opt map[string]any) error
	// options are those that the repository's own evaluation reads again.
	options func(m *Model) map[string]any
	// recalls is how many recalls add up to its "best_rsum".
	recalls int
	// prefix, where given, is put before the names of the tensors that are written.
	prefix func(m *Model) string
}

var formats = map[string]format{}

// recognise finds out which network the state dicts belong to, and its sizes.
func (r *Reference) recognise(opt map[string]any) error {
	for _, name := range Available() {
		f, ok := formats[name]
		if !ok || !f.matches(r) {
			continue
		}
		r.options = DefaultOptions()
		r.options.Network = name
		if err := r.oneLayer(); err != nil {
			return err
		}
		if err := f.read(r, opt); err != nil {
			return err
		}
		if err := r.options.Validate(); err != nil {
			return err
		}
		n, err := newNetwork(r.options, r.dims)
		if err != nil {
			return err
		}
		r.parts, r.score = n.Parts(), r.score/float64(f.recalls)
		return nil
	}
	var names []string
	for _, s := range r.states {
		for n := range s {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if len(names) > 6 {
		names = append(names[:6], "...")
	}
	return fmt.Errorf("the %d state dicts (%s) are of no network this version knows; it knows %v", len(r.states),
		strings.Join(names, ", "), Available())
}

// oneLayer refuses a recurrence of several layers, which the references' option --num_layers makes.
func (r *Reference) oneLayer() error {
	for part, state := range r.states {
		for name := range state {
			gru, found := strings.CutSuffix(name, ".weight_hh_l1")
			if !found {
				continue
			}
			layers := 2
			for r.has(part, fmt.Sprintf("%s.weight_hh_l%d", gru, layers), 2) {
				layers++
			}
			return fmt.Errorf("a checkpoint of network %s whose text encoder has %d GRU layers (--num_layers %d); "+
				"supported is one layer, which the published models have", r.options.Network, layers, layers)
		}
	}
	return nil
}

func (r *Reference) has(part int, name string, dims int) bool {
	t := r.states[part][name]
	return t != nil && len(t.Shape) == dims
}

// Network implements Weights.
func (r *Reference) Network() Options { return r.options }

// Sizes implements Weights. The file knows only the product of regions and feature size.
func (r *Reference) Sizes() Dims { return r.dims }

// VocabularyHash implements Weights: the references' checkpoints do not know their vocabulary.
func (r *Reference) VocabularyHash() string { return "" }

// Learned implements Weights: no reference has a loss with parameters.
func (r *Reference) Learned() []*nn.Param { return nil }

// Progress implements Weights.
func (r *Reference) Progress() (float64, int64, float64) { return r.epoch, r.steps, r.score }

// Describe implements Weights.
func (r *Reference) Describe() string {
	return fmt.Sprintf("%s: %s of a reference repository after epoch %g, validation score %.1f", r.Path,
		r.options.Network, r.epoch, r.score)
}

// File implements Weights.
func (r *Reference) File() string { return r.Path }

// Close implements Weights.
func (r *Reference) Close() error { return nil }

// Restore implements Weights. Every parameter has to be there with its shape, except for those that serve training
// only, which no reference stores; a tensor the network lacks is an error too.
func (r *Reference) Restore(m *Model) error {
	used := 0
	for _, p := range m.Network.Params() {
		if trainingOnly(m.Network, p.Name) {
			continue
		}
		part, name, _ := strings.Cut(p.Name, ".")
		i := slices.Index(r.parts, part)
		if i < 0 {
			return fmt.Errorf("%s: the checkpoint has no part %s", r.Path, part)
		}
		t := r.states[i][name]
		if t == nil {
			return fmt.Errorf("%s: state dict %d has no tensor %s", r.Path, i, name)
		}
		if !slices.Equal(t.Shape, p.Shape) {
			return fmt.Errorf("%s: tensor %s has shape %v, the network wants %v", r.Path, name, t.Shape, p.Shape)
		}
		values, err := t.Float64s()
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", r.Path, name, err)
		}
		m.Instance.Dev.UploadDoubles(m.Instance.Params.Value(p.Name), values)
		used++
	}
	total := 0
	for _, s := range r.states {
		total += len(s)
	}
	if total != used {
		return fmt.Errorf("%s: the checkpoint has %d tensors, network %s uses %d", r.Path, total, m.Options.Network,
			used)
	}
	return nil
}
