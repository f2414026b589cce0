package models

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/torchfile"
	"vsetrain/internal/system/options"
	"vsetrain/models/nn"
)

// Checkpoints of the reference repositories (train.py, save_checkpoint): a dict {epoch, model, best_rsum, opt, Eiters}
// whose "model" is a list of state dicts, one for each part of the network, under the names this package uses too.
//
// Checkpoints of other training loops are read where there is one way to read them: state dicts under another key, in a
// dict of parts, in a list alone, or all in one dict whose names begin with the parts. Which network they are of, and
// which of them is which part, follows from the names and shapes of their tensors, and where two networks have the
// same, from the options that only one of the two has. Where more than one reading is left, the file is refused.

// Reference is an opened checkpoint of a reference repository.
type Reference struct {
	Path    string
	options Options
	dims    Dims
	parts   []string
	states  []state
	epoch   float64
	steps   int64
	sum     float64         // of the recalls, its "best_rsum"
	score   float64         // their mean
	entries *torchfile.Dict // its "opt"; nil without
	opt     map[string]any  // all plain values that it names
	given   Given
	told    map[string]bool // options that it holds, by their keys below model
	assumed []string        // what it does not tell, see Assumed
}

// OpenReference reads a .pth or .pth.tar. Nothing in it is executed; whatever is not plain data or tensors is an error.
// given are options in place of those in the file.
func OpenReference(path string, given Given) (*Reference, error) {
	v, err := torchfile.Load(path)
	if err != nil {
		return nil, err
	}
	r := &Reference{Path: path, given: given}
	if err := r.parse(v); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (r *Reference) parse(v any) error {
	top, isDict := v.(*torchfile.Dict)
	if _, isList := pickle.Items(v); !isDict && !isList {
		return fmt.Errorf("expected a dict with a list \"model\" of state dicts, as the reference repositories "+
			"write, found a %s", pickle.TypeName(v))
	}
	found, rest, err := readings(v)
	if err != nil {
		return err
	}
	r.opt = map[string]any{}
	if isDict {
		opt, _ := top.Get("opt")
		r.entries = dictOf(opt)
		named(r.opt, r.entries)
		named(r.opt, rest)
	}
	number := func(name string) float64 {
		if !isDict {
			return 0
		}
		v, _ := top.Get(name)
		n, _ := numberOf(plain(v))
		return n
	}
	r.epoch, r.steps, r.sum = number("epoch"), int64(number("Eiters")), number("best_rsum")
	return r.recognise(found)
}

// Batch is the batch_size of the checkpoint's options, 0 where there is none.
func (r *Reference) Batch() int {
	n, _ := numberOf(r.opt["batch_size"])
	return int(n)
}

// settings are the options of the checkpoint that are plain values.
func (r *Reference) settings() map[string]any {
	out := map[string]any{}
	if r.entries == nil {
		return out
	}
	for k, v := range r.entries.All() {
		if name, ok := pickle.Text(k); ok && v != nil && same(v, v) {
			out[name] = v
		}
	}
	return out
}

// format is how the reference repository of a network writes its checkpoints. The file of a network adds its own to
// formats.
type format struct {
	// matches reports whether the state dicts are of this network; read finds out what options and sizes its tensors
	// tell.
	matches func(r *Reference) bool
	read    func(r *Reference) error
	// unsupported are options of the repository that this program computes as if they were false.
	unsupported []string
	// options are those that the repository's own evaluation reads again, beside those with a tag reference.
	options func(m *Model) map[string]any
	// recalls is how many recalls add up to its "best_rsum".
	recalls int
	// prefix, where given, is put before the names of the tensors that are written.
	prefix func(m *Model) string
}

var formats = map[string]format{}

// fit is a network with the state dicts of its parts, in its order.
type fit struct {
	network, key string
	states       []state
	err          error // the network is not computed in this form
	differs      error // other tensors than the network has
}

// fits returns the networks that state dicts may be of.
func (r *Reference) fits(of reading) (list []fit) {
	for _, name := range Available() {
		f, ok := formats[name]
		if given, is := r.given["network"]; !ok || is && given != name {
			continue
		}
		for r.states = range arrangements(of.states) {
			if f.matches(r) {
				x := fit{network: name, key: of.key, states: r.states}
				x.differs, x.err = r.read(x)
				list = append(list, x)
				break
			}
		}
	}
	return list
}

// recognise finds out which state dicts are meant, to which network they belong, and its options and sizes. Where
// several readings are possible none is taken.
func (r *Reference) recognise(found []reading) error {
	var all, likely, list []fit
	for _, of := range found {
		all = append(all, r.fits(of)...)
	}
	for _, f := range all {
		if f.differs == nil {
			likely = append(likely, f)
			if f.err == nil {
				list = append(list, f)
			}
		}
	}
	switch {
	case len(all) == 0:
		return r.unknown(found)
	case len(likely) == 0:
		list = all[:1] // Restore names what is wrong with it
	case len(list) == 0:
		list = likely
	}
	names := func(list []fit, of func(fit) string) (names []string) {
		for _, f := range list {
			names = append(names, of(f))
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	if keys := names(list, func(f fit) string { return f.key }); len(keys) > 1 {
		return fmt.Errorf("it holds weights of a network several times, under %s; keep one: torch.save({\"model\": "+
			"checkpoint[%s], \"opt\": checkpoint.get(\"opt\")}, FILE)", strings.Join(keys, " and "), keys[0])
	}
	network := func(f fit) string { return f.network }
	if with := evidence(r.opt, names(likely, network)); len(with) == 1 {
		list = slices.DeleteFunc(likely, func(f fit) bool { return f.network != with[0] })
	}
	if fitting := names(list, network); len(fitting) > 1 {
		return fmt.Errorf("its weights fit the networks %s, and its options do not tell which; name it with --set "+
			"%snetwork=%s", strings.Join(fitting, " and "), modelSection, fitting[0])
	}
	_, err := r.read(list[0])
	return err
}

// read takes state dicts for the ones of a network, and finds out its options and sizes. differs tells what other
// tensors than the tensors of the network they have.
func (r *Reference) read(f fit) (differs, err error) {
	r.states, r.told, r.assumed = f.states, map[string]bool{}, nil
	r.options = DefaultOptions()
	r.options.Network = f.network
	title := r.options.Traits().Title
	if err := r.readOwn(); err != nil {
		return nil, err
	}
	if err := r.oneLayer(); err != nil {
		return nil, err
	}
	for _, name := range formats[f.network].unsupported {
		if v := r.opt[name]; v != nil {
			if set, ok := truthOf(v); set || !ok {
				return nil, fmt.Errorf("a %s checkpoint with the option %s, which is not supported; the published "+
					"models are without", title, name)
			}
		}
	}
	if err := formats[f.network].read(r); err != nil {
		return nil, err
	}
	if err := r.readOptions(); err != nil {
		return nil, err
	}
	r.given.apply(&r.options)
	var bad *options.Error
	if err := r.options.Validate(); errors.As(err, &bad) {
		return nil, fmt.Errorf("options of a %s checkpoint: %s%w; give another with --set %[2]s%[4]s=VALUE", title,
			modelSection, err, bad.Key)
	}
	n, err := newNetwork(r.options, r.dims)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(n.Params(), func(p *nn.Param) bool { return trainingOnly(n, p.Name) }) {
		return nil, fmt.Errorf("options given for a %s checkpoint add a part that serves training only, which it does "+
			"not hold; leave them out", title)
	}
	r.parts, r.score = n.Parts(), r.sum/float64(formats[f.network].recalls)
	return r.differs(n), nil
}

// differs returns an error for the first parameter of a network that is not there with its shape, except for those that
// serve training only, which no reference stores, and for tensors that the network lacks.
func (r *Reference) differs(n Network) error {
	left := make([]state, len(r.states))
	for i, s := range r.states {
		left[i] = maps.Clone(s)
	}
	for _, p := range n.Params() {
		if trainingOnly(n, p.Name) {
			continue
		}
		part, name, _ := strings.Cut(p.Name, ".")
		i := slices.Index(r.parts, part)
		if i < 0 || i >= len(r.states) {
			return fmt.Errorf("the checkpoint has no part %s", part)
		}
		t := r.states[i][name]
		if t == nil {
			return fmt.Errorf("state dict %d has no tensor %s", i, name)
		}
		if !slices.Equal(t.Shape, p.Shape) {
			return fmt.Errorf("tensor %s has shape %v, the network wants %v", name, t.Shape, p.Shape)
		}
		delete(left[i], name)
	}
	for i, s := range left {
		if len(s) > 0 {
			return fmt.Errorf("state dict %d has %d tensors that the network does not use, such as %s", i, len(s),
				slices.Min(slices.Collect(maps.Keys(s))))
		}
	}
	return nil
}

// readOptions sets the options of the network from the options of the checkpoint. An option has the value that its
// entry denotes, of whatever type the entry is: numbers and truth values also as text, as NumPy scalars and as tensors
// of one element. What is missing or denotes no such value stays as it is and is noted, for Assumed.
func (r *Reference) readOptions() error {
	for x, ref := range r.options.referenced() {
		found, there := r.opt[ref.name]
		if _, given := r.given[x.key]; given || !there && ref.may {
			continue
		}
		fault := "is missing"
		if there && found != nil {
			ok, err := ref.take(x.value, found)
			if err != nil {
				return fmt.Errorf("a %s checkpoint with %w; give the right one with --set %s%s=VALUE",
					r.options.Traits().Title, err, modelSection, x.key)
			}
			if ok {
				r.told[x.key] = true
				continue
			}
			fault = "is " + shown(found)
		}
		r.assume("option "+ref.name+" "+fault, x.key, x.value.Interface())
	}
	return nil
}

// assume notes a fault of the checkpoint, and the value that an option has for that reason.
func (r *Reference) assume(fault, key string, value any) {
	r.assumed = append(r.assumed, fmt.Sprintf("%s, so %s%s is taken to be %v", fault, modelSection, key, value))
}

// readOwn sets the options that ownEntry holds.
func (r *Reference) readOwn() error {
	stored := dictOf(r.opt[ownEntry])
	if stored == nil {
		return nil
	}
	known := map[any]option{}
	for x := range r.options.each() {
		known[modelSection+x.key] = x
	}
	for key, x := range stored.All() {
		x = plain(x)
		o, ok := known[key]
		if ok {
			ok, _ = (&reference{}).take(o.value, x)
			r.told[o.key] = true
		}
		if !ok {
			return fmt.Errorf("option %s: %v is %s, which this version does not know; use the version that wrote the "+
				"file", ownEntry, key, shown(x))
		}
	}
	return nil
}

// unknown is the error of state dicts that belong to no network.
func (r *Reference) unknown(found []reading) error {
	states := found[0].states
	var names []string
	for _, s := range states {
		names = slices.AppendSeq(names, maps.Keys(s))
	}
	slices.Sort(names)
	const shown = 12
	if len(names) > shown {
		names = append(names[:shown], "...")
	}
	which := fmt.Sprintf("no network this version knows; it knows %v", Available())
	if given, is := r.given["network"]; is {
		which = fmt.Sprintf("another network than %v", given)
	}
	return fmt.Errorf("the %d state dicts (%s) are of %s; where they hold more than such a network, %s",
		len(states), strings.Join(names, ", "), which, savedState)
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

// Assumed implements Weights.
func (r *Reference) Assumed() string {
	if len(r.assumed) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s; give others with --set KEY=VALUE, which 'vsetrain import' records", r.Path,
		strings.Join(r.assumed, "; "))
}

// File implements Weights.
func (r *Reference) File() string { return r.Path }

// Close implements Weights.
func (r *Reference) Close() error { return nil }

// Restore implements Weights.
func (r *Reference) Restore(m *Model) error {
	if err := r.differs(m.Network); err != nil {
		return fmt.Errorf("%s: %w", r.Path, err)
	}
	for _, p := range m.Network.Params() {
		if trainingOnly(m.Network, p.Name) {
			continue
		}
		part, name, _ := strings.Cut(p.Name, ".")
		values, err := r.states[slices.Index(r.parts, part)][name].Float64s()
		if err != nil {
			return fmt.Errorf("%s: tensor %s: %w", r.Path, name, err)
		}
		m.Instance.Dev.UploadDoubles(m.Instance.Params.Value(p.Name), values)
	}
	return nil
}
