package loss

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/compute/graph"
	"vsetrain/internal/system/options"
)

// Options chooses the retrieval loss and its constants.
type Options struct {
	Name string `yaml:"name"`

	// Margin is the paper's alpha. 0 is a real margin of 0, not a default.
	Margin float64 `yaml:"margin" min:"0" max:"100" doc:"margin alpha; 0.2 for lsh, lmh and luwm, 0.185 for lseh"`

	// WarmupEpochs is the number of epochs during which LMH and LSEH sum over all violations instead of taking the
	// hardest; 0 takes the hardest from the first step.
	WarmupEpochs int `yaml:"warmup_epochs" min:"0" max:"1000000" doc:"epochs that sum all violations before only the hardest counts (vse-infinity uses 1); 0 is none"`

	LSEH LSEHOptions `yaml:"lseh" doc:"used when name is lseh"`
	LUWM LUWMOptions `yaml:"luwm" doc:"used when name is luwm"`

	// Own holds the sections of losses whose constants only their own file reads (constants).
	Own own `yaml:",inline"`
}

// MoreTags implements options.Tagged with what the losses declare.
func (Options) MoreTags(key string) reflect.StructTag {
	if key != "name" {
		return ""
	}
	var docs []string
	for _, name := range Names() {
		docs = append(docs, name+" "+registry[name].about)
	}
	return options.Tag("enum", strings.Join(Names(), "|")) + " " + options.Tag("doc", strings.Join(docs, ", "))
}

// DefaultOptions returns LMH with margin 0.2 and the published constants of the other losses.
func DefaultOptions() Options {
	o := Options{Name: LMH, Margin: 0.2}
	for _, t := range registry {
		if t.defaults != nil {
			t.defaults(&o)
		}
	}
	for i, s := range sections {
		o.Own[i] = s.defaults
	}
	return o
}

// own holds the constants of losses, each a struct with the tags of options, in the order of sections.
type own [32]any

// sections are the sections that the files of losses declare; own must have room for them.
var sections []struct {
	key      string
	defaults any
}

// Sections implements options.Registered.
func (own) Sections() (keys []string) {
	for _, s := range sections {
		keys = append(keys, s.key)
	}
	return keys
}

// constants are the options of a single loss, in the section of its name in the configuration.
type constants[T any] struct{ at int }

// declare declares the constants of a loss. A variable in the file of the loss holds the result, so that only this file
// reads them.
func declare[T any](name string, defaults T) constants[T] {
	sections = append(sections, struct {
		key      string
		defaults any
	}{name, defaults})
	return constants[T]{len(sections) - 1}
}

// of returns the constants in options, or the defaults if the options were made without DefaultOptions.
func (c constants[T]) of(o *Options) T {
	if v, ok := o.Own[c.at].(T); ok {
		return v
	}
	return sections[c.at].defaults.(T)
}

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error {
	if err := options.Check(o); err != nil {
		return err
	}
	if check := registry[o.Name].check; check != nil {
		if err := check(o); err != nil {
			return err
		}
	}
	if o.WarmupEpochs > 0 && registry[o.Name].noWarmUp {
		return &options.Error{Key: "warmup_epochs", Found: strconv.Itoa(o.WarmupEpochs), Expected: "0 for loss " +
			o.Name,
			Remedy: o.Name + " has no sum of violations to warm up with"}
	}
	return nil
}

// traits are what the rest of the program needs to know about a loss. The file of the loss declares them. Functions may
// be nil.
type traits struct {
	about    string                  // in a few words
	defaults func(o *Options)        // sets the loss's own options
	titles   []string                // in tables, in their order
	title    func(o *Options) string // the title for options; nil if there is only one
	order    int                     // in tables
	compared bool                    // the LSEH paper compares its computation time
	// build adds the loss to a graph; sum requests its warm-up form.
	build     func(o Options, g *graph.Graph, scores *graph.Node, c Context, sum bool) *graph.Node
	semantics func(o *Options) bool // whether it reads semantic vectors of the captions
	images    func(o *Options) bool // whether it compares the images of pairs without semantic vectors
	mean      bool                  // it is a mean over the pairs of the batch instead of a sum
	warmUp    int                   // warm-up epochs as published
	noWarmUp  bool                  // it has no form for warm-up epochs
	sum       bool                  // it is a sum already: its form for warm-up epochs is the loss itself
	plateau   bool                  // it is 2 x pairs x margin if all scores are equal, and rarely otherwise
	// hinges returns the margin from which every hinge is active, for scores that differ by at most span; nil if the
	// loss has no hinges.
	hinges func(span float64) float64
	doubts func(o *Options, span float64, pairs int) []*options.Error // about its own constants (Options.Doubts)
	// reference adds the settings under the names of the references' options.
	reference func(o *Options, settings map[string]any)
	learned   func(o *Options) []Learned
	memory    func(o *Options) Memory // its state on the host
	earlier   func(o *Options) string // the checkpoint of an earlier run with which its memory begins; "" for none
	check     func(o *Options) error  // checks options against each other; returns an *options.Error
}

// Learned is a scalar that a loss learns with the network: a parameter without weight decay, which is clamped to its
// range after every update.
type Learned struct {
	Name               string // in checkpoints, after "loss."
	Start, Least, Most float64
}

// Learned returns the scalars that the loss learns.
func (o *Options) Learned() []Learned {
	if t := registry[o.Name]; t.learned != nil {
		return t.learned(o)
	}
	return nil
}

// node returns the scalar in a graph: [1].
func (l Learned) node(g *graph.Graph) *graph.Node { return g.Param("loss."+l.Name, 1) }

// Memory returns the memory of the loss at the beginning of a run; nil if it needs none.
func (o *Options) Memory() Memory {
	if t := registry[o.Name]; t.memory != nil {
		return t.memory(o)
	}
	return nil
}

// Earlier returns the checkpoint of an earlier run with whose memory this run begins; "" for none.
func (o *Options) Earlier() string {
	if t := registry[o.Name]; t.earlier != nil {
		return t.earlier(o)
	}
	return ""
}

var registry = map[string]traits{}

// Title returns the name of the loss in tables.
func (o *Options) Title() string {
	switch t := registry[o.Name]; {
	case t.title != nil:
		return t.title(o)
	case len(t.titles) == 1:
		return t.titles[0]
	}
	return strings.ToUpper(o.Name)
}

// Plateau returns the loss of a batch with the given number of pairs whose scores are all equal. ok is false if other
// scores often give the same loss, or equal scores another loss.
func (o *Options) Plateau(pairs int) (value float64, ok bool) {
	return 2 * float64(pairs) * o.Margin, registry[o.Name].plateau
}

// Titles returns the titles of all losses in the order of tables: bases before the losses that are compared with them.
func Titles() (titles []string) {
	for _, name := range Names() {
		titles = append(titles, registry[name].titles...)
	}
	return titles
}

// Names returns the names of all losses in the order of tables.
func Names() []string {
	return slices.SortedFunc(maps.Keys(registry), func(a, b string) int {
		return registry[a].order - registry[b].order
	})
}

// PublishedWarmUp returns the number of warm-up epochs in the publication of a loss.
func PublishedWarmUp(name string) int { return registry[name].warmUp }

// Compared returns the losses whose computation times are compared.
func Compared() []string {
	return slices.DeleteFunc(Names(), func(name string) bool { return !registry[name].compared })
}

// ReferenceSettings returns the settings of the loss under the names of the references' options, and the name of the
// loss as "loss".
func (o *Options) ReferenceSettings() map[string]any {
	s := map[string]any{"loss": o.Name, "margin": o.Margin, "max_violation": true}
	if add := registry[o.Name].reference; add != nil {
		add(o, s)
	}
	return s
}

// Mean reports whether the loss is a mean over the pairs of the batch instead of a sum.
func (o *Options) Mean() bool { return registry[o.Name].mean }

// HasMargins reports whether each negative pair has its own margin, from semantic vectors.
func (o *Options) HasMargins() bool { return o.Name == LSEH }

// MarginTitles returns the titles of a loss that HasMargins, one for each kind of semantic vectors, the usual kind
// first; nil for other losses.
func (o *Options) MarginTitles() []string {
	if !o.HasMargins() {
		return nil
	}
	return registry[o.Name].titles
}

// NeedsImages reports whether the loss reads the image identities of the batch.
func (o *Options) NeedsImages() bool {
	t := registry[o.Name]
	return o.NeedsSemantics() || t.images != nil && t.images(o)
}

// NeedsSemantics reports whether the loss reads semantic vectors of the training captions.
func (o *Options) NeedsSemantics() bool {
	t := registry[o.Name]
	return t.semantics != nil && t.semantics(o)
}

// always is a trait that does not depend on options.
func always(*Options) bool { return true }
