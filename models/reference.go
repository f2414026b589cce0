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

// A checkpoint of a reference repository (train.py, save_checkpoint) is a dict {epoch, model, best_rsum, opt, Eiters}.
// Its "model" is a list of state dicts, one for each part of the network, with the names of this package.
//
// Checkpoints of other training loops are read if there is only one way to read them: state dicts under another key, in
// a dict of parts, in a list alone, or in one dict whose names begin with the parts. The names and shapes of the
// tensors tell the network and the parts. If two networks have the same tensors, an option that only one of them has
// decides. If several readings remain, the file is refused.

// Reference is an open checkpoint of a reference repository.
type Reference struct {
	Path    string
	options Options
	dims    Dims
	parts   []string
	states  []state
	epoch   float64
	steps   int64
	sum     float64         // "best_rsum", the sum of the recalls
	score   float64         // the mean of the recalls
	entries *torchfile.Dict // "opt"; nil if it is missing
	opt     map[string]any  // all named plain values
	given   Given
	told    map[string]bool // options in the file, by their keys below model
	assumed []string        // see Assumed
}

// OpenReference reads a .pth or .pth.tar without executing anything in it. The file must hold only plain data and
// tensors. given replaces options in the file.
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

// format describes the checkpoints of a network's reference repository. The file of each network adds its own to
// formats.
type format struct {
	// matches reports whether the state dicts may belong to this network.
	matches func(r *Reference) bool
	// read sets the options and sizes that follow from the tensors.
	read func(r *Reference) error
	// unsupported are options of the repository that must be false.
	unsupported []string
	// options are the options that the repository's evaluation reads, besides the options with a reference tag.
	options func(m *Model) map[string]any
	// recalls is the number of recalls in the sum "best_rsum".
	recalls int
	// prefix is written in front of the names of tensors; nil is none.
	prefix func(m *Model) string
}

var formats = map[string]format{}

// fit is a network that state dicts may belong to.
type fit struct {
	network, key string
	states       []state // in the order of its parts
	err          error   // the form of the network is not supported
	differs      error   // the tensors differ from the network's
}

// fits returns the networks that state dicts may belong to.
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

// recognise finds the state dicts, the network that they belong to, and its options and sizes. It returns an error if
// several readings are possible.
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
		list = all[:1] // Restore will explain the difference
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
		return fmt.Errorf("the file holds several sets of weights, under %s; keep one: torch.save({\"model\": "+
			"checkpoint[%s], \"opt\": checkpoint.get(\"opt\")}, FILE)", strings.Join(keys, " and "), keys[0])
	}
	network := func(f fit) string { return f.network }
	if with := evidence(r.opt, names(likely, network)); len(with) == 1 {
		list = slices.DeleteFunc(likely, func(f fit) bool { return f.network != with[0] })
	}
	if fitting := names(list, network); len(fitting) > 1 {
		return fmt.Errorf("the weights fit the networks %s, and the options do not tell which; choose one with --set "+
			"%snetwork=%s", strings.Join(fitting, " and "), modelSection, fitting[0])
	}
	_, err := r.read(list[0])
	return err
}

// read sets the options and sizes of a network from its state dicts. differs names a tensor that differs from the
// network's.
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
					"models do not set it", title, name)
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
		return nil, fmt.Errorf("options given for a %s checkpoint add a part that serves training only, which the "+
			"file does not hold; leave them out", title)
	}
	r.parts, r.score = n.Parts(), r.sum/float64(formats[f.network].recalls)
	return r.differs(n), nil
}

// differs returns an error for the first parameter of a network that the file lacks or holds with another shape, and
// for tensors that the network lacks. Parameters that serve training only are not compared: no reference stores them.
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

// readOptions sets the options of the network from the options of the checkpoint. Numbers and truth values may also be
// text, NumPy scalars or tensors of one element. An option that is missing or cannot be read keeps its default, which
// Assumed names.
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

// assume records the value that is assumed for an option because of a fault of the checkpoint.
func (r *Reference) assume(fault, key string, value any) {
	r.assumed = append(r.assumed, fmt.Sprintf("%s, so %s%s is taken to be %v", fault, modelSection, key, value))
}

// readOwn sets the options in ownEntry.
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

// unknown is the error for state dicts that belong to no network.
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

// oneLayer returns an error if a GRU has several layers (the references' option --num_layers).
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

// The usual sizes, which are assumed if a checkpoint holds their product, or nothing that depends on the regions.
const usualRegions, usualFeature = 36, 2048

// readSizes sets the text encoder, a GRU or BiGRU, and the sizes that follow from the image layer and the word vectors.
func (r *Reference) readSizes(encoder string) {
	fc, embed := r.states[0]["fc.weight"], r.states[1]["embed.weight"]
	if fc == nil {
		fc = r.states[0]["fc.weight_v"]
	}
	r.options.TextEncoder, r.options.EmbedDim, r.options.WordDim = encoder, fc.Shape[0], embed.Shape[1]
	r.dims = Dims{Regions: usualRegions, Feature: fc.Shape[1], Vocab: embed.Shape[0]}
}

func (r *Reference) has(part int, name string, dims int) bool {
	t := r.states[part][name]
	return t != nil && len(t.Shape) == dims
}
