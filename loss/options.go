package loss

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/graph"
	"vsetrain/internal/options"
)

// Names of the losses.
const (
	LSH  = "lsh"  // sum of hinges
	LMH  = "lmh"  // max of hinges
	LSEH = "lseh" // semantically enhanced hard negatives
	LUWM = "luwm" // universal weighting metric
)

// Options chooses the retrieval loss and its constants.
type Options struct {
	Name string `yaml:"name" enum:"lsh|lmh|lseh|luwm" doc:"lsh sum of hinges, lmh max of hinges, lseh semantically enhanced hard negatives, luwm universal weighting"`

	// Margin is the paper's alpha. 0 is a real margin of 0, not a default.
	Margin float64 `yaml:"margin" min:"0" max:"100" doc:"margin alpha; 0.2 for lsh, lmh and luwm, 0.185 for lseh"`

	// WarmupEpochs is the number of epochs during which LMH and LSEH sum over all violations instead of taking the
	// hardest; 0 takes the hardest from the first step.
	WarmupEpochs int `yaml:"warmup_epochs" min:"0" max:"1000000" doc:"epochs that sum all violations before the hardest alone counts (vse-infinity uses 1); 0 is none"`

	LSEH LSEHOptions `yaml:"lseh" doc:"used when name is lseh"`
	LUWM LUWMOptions `yaml:"luwm" doc:"used when name is luwm"`
}

// LSEHOptions are the constants of the margin alpha + lambda * Sim(i, j) between captions i and j.
type LSEHOptions struct {
	Lambda     float64 `yaml:"lambda" min:"0" max:"100" doc:"weight lambda of the semantic similarity in the margin; 0 is lmh with same-image handling"`
	Similarity string  `yaml:"similarity" enum:"rowmax|cosine" doc:"rowmax as released (row divided by its largest entry), cosine as the paper writes it"`
	SameImage  string  `yaml:"same_image" enum:"zero_margin|normal" doc:"margin of two captions of one image: zero_margin as released, normal like any other pair"`
	Semantics  string  `yaml:"semantics" enum:"svd|bert" doc:"which semantic vectors data.semantics: auto looks for"`
}

// LUWMOptions are the polynomials c0 + c1 s + c2 s^2 of a positive and of the hardest informative negative score s.
type LUWMOptions struct {
	Positive [3]float64 `yaml:"positive" min:"-1e6" max:"1e6" doc:"coefficients c0, c1, c2 for the positive score"`
	Negative [3]float64 `yaml:"negative" min:"-1e6" max:"1e6" doc:"coefficients c0, c1, c2 for the hardest informative negative score"`
}

// DefaultOptions returns LMH with margin 0.2 and the published constants of the other losses.
func DefaultOptions() Options {
	return Options{
		Name:   LMH,
		Margin: 0.2,
		LSEH:   LSEHOptions{Lambda: 0.025, Similarity: "rowmax", SameImage: "zero_margin", Semantics: "svd"},
		LUWM:   LUWMOptions{Positive: [3]float64{0.5, -0.7, 0.2}, Negative: [3]float64{0.03, -0.4, 0.9}},
	}
}

// Validate returns an *options.Error for the first option that cannot be used.
func (o *Options) Validate() error {
	if err := options.Check(o); err != nil {
		return err
	}
	if o.WarmupEpochs > 0 && registry[o.Name].noWarmUp {
		return &options.Error{Key: "warmup_epochs", Found: strconv.Itoa(o.WarmupEpochs), Expected: "0 for loss " +
			o.Name,
			Remedy: o.Name + " has no sum of violations to warm up with"}
	}
	return nil
}

// traits are what the rest of the program asks about a loss; the loss's own file declares them.
type traits struct {
	titles   []string                // in tables, in their order there
	title    func(o *Options) string // which of them; nil is the only one
	order    int                     // in tables
	compared bool                    // the LSEH paper compares its computation time
	// build adds the loss to a graph; sum asks for its warm-up form.
	build     func(o Options, g *graph.Graph, scores *graph.Node, c Context, sum bool) *graph.Node
	semantics bool // it reads semantic vectors of the captions
	noWarmUp  bool // it has no form for warm-up epochs
	// reference adds the settings of the references' options; nil adds nothing.
	reference func(o *Options, settings map[string]any)
}

var registry = map[string]traits{}

// Title is the loss in tables.
func (o *Options) Title() string {
	switch t := registry[o.Name]; {
	case t.title != nil:
		return t.title(o)
	case len(t.titles) == 1:
		return t.titles[0]
	}
	return strings.ToUpper(o.Name)
}

// Titles are the titles of all losses, in the order of tables: the bases before what is compared with them.
func Titles() (titles []string) {
	for _, name := range names() {
		titles = append(titles, registry[name].titles...)
	}
	return titles
}

// names are the losses in the order of tables.
func names() []string {
	return slices.SortedFunc(maps.Keys(registry), func(a, b string) int {
		return registry[a].order - registry[b].order
	})
}

// Compared are the losses whose computation time is compared.
func Compared() []string {
	return slices.DeleteFunc(names(), func(name string) bool { return !registry[name].compared })
}

// ReferenceSettings are the settings of the loss under the names of the references' options, and its name, for which
// they have none.
func (o *Options) ReferenceSettings() map[string]any {
	s := map[string]any{"loss": o.Name, "margin": o.Margin, "max_violation": true}
	if add := registry[o.Name].reference; add != nil {
		add(o, s)
	}
	return s
}

// NeedsSemantics reports whether the loss reads semantic vectors of the training captions.
func (o *Options) NeedsSemantics() bool { return registry[o.Name].semantics }
