package loss

import (
	"strconv"

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
	if o.WarmupEpochs > 0 && o.Name == LUWM {
		return &options.Error{Key: "warmup_epochs", Found: strconv.Itoa(o.WarmupEpochs), Expected: "0 for loss luwm",
			Remedy: "luwm has no sum of violations to warm up with"}
	}
	return nil
}

// NeedsSemantics reports whether the loss reads semantic vectors of the training captions.
func (o *Options) NeedsSemantics() bool { return o.Name == LSEH }
