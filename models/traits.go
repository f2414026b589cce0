package models

import "math"

// Traits describe a network with given options to the rest of the program, which need not build it.
type Traits struct {
	Title   string // as papers write it
	Variant string // of the options, after the title in tables; may be empty
	Order   int    // in tables, from 1
	Apart   bool   // the LSEH paper lists the network in a table of its own, not in its summary

	// Span is the largest difference of two scores of captions of up to spanWords words; 0 if it is unbounded.
	Span float64

	TextEncoders  []string // with which the network is defined, the published one first
	Section       string   // key of its options under model, if it has any
	Embeds        bool     // it is an Embedder, otherwise a PairScorer
	AnyRegions    bool     // the weights serve images of any number of regions
	Counts        bool     // images of one batch may have different numbers of regions
	Attention     bool     // it is a RegionEncoder
	WordAttention bool     // it is a WordAttender

	Boxes        bool // it reads the boxes of the regions
	DecayedBoxes bool // training divides boxes again at every use, as GSMN's released code (data.FieldDecayedBoxes)
	Dependencies bool // it is defined with the dependencies between words, which are checked if they exist
	ReadsEdges   bool // it computes with the dependencies
	StoredWords  bool // word ids that are stored with the captions replace the vocabulary's (GSMN's released data)
	SizeAugment  bool // training drops regions and words (data.FieldAugmentation)
	MaskWord     bool // it adds a word <mask> after the vocabulary; a saved vocabulary may include it
	// Together is the option and its value by which the images of a batch attend to each other, so that ranks cannot
	// divide the batch; empty if there is none.
	Together        string
	WarmupReference string // option of its repository for loss.warmup_epochs; empty if it has none
}

// spanWords is the longest caption that Traits.Span holds for.
const spanWords = 512

// cosines is the span of cosines.
const cosines = 2

// pooledSpan returns the span of cosines pooled over up to spanWords words. lse is the factor of ln Σ e^(lse x), and
// divided reports whether the result is divided by lse.
func pooledSpan(pooling string, lse float64, divided bool) float64 {
	switch {
	case pooling == "sum":
		return 0
	case pooling == "lse" && divided:
		return cosines + math.Log(spanWords)/lse
	case pooling == "lse":
		return cosines*lse + math.Log(spanWords)
	}
	return cosines
}

// Name returns the name of the network in tables: its title and variant.
func (t *Traits) Name() string {
	if t.Variant == "" {
		return t.Title
	}
	return t.Title + " (" + t.Variant + ")"
}
