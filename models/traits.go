package models

import "math"

// Traits are what the rest of the program needs to know of a network without building it. The network's own file
// declares them for its options.
type Traits struct {
	Title   string // as papers write it
	Variant string // of the options, after the title in tables; may be empty
	Order   int    // in tables, from 1
	// Apart: the LSEH paper lists the network in its own table, and not in its summary.
	Apart bool

	// Span is the most by which two scores differ, of captions of up to spanWords words; 0 where there is no bound.
	Span float64

	TextEncoders []string // those it is defined with, the published one first
	Section      string   // key under model of its options, if it has any
	Embeds       bool     // it has one vector per image and per caption; otherwise it scores pairs
	AnyRegions   bool     // the weights serve images of any number of regions
	Counts       bool     // images of one batch may have different numbers of regions
	Attention    bool     // it is a RegionEncoder, whose attention can be shown

	// it is a WordAttender, whose attention can be shown
	WordAttention bool

	Boxes bool // it looks at the boxes of the regions
	// training divides boxes again at every use, as the released GSMN code (data.FieldDecayedBoxes)
	DecayedBoxes bool
	Dependencies bool // it is defined with the dependencies between words, which are checked if they exist
	ReadsEdges   bool // it computes with them
	StoredWords  bool // word ids that are stored with the captions replace theirs (GSMN's released data)
	SizeAugment  bool // training drops regions and words (data.FieldAugmentation)
	// it brings a word <mask> of its own after the vocabulary, with which the vocabulary may have been saved
	MaskWord bool
	// Together names the option, and its value, by which the images of a batch attend to each other, so that ranks
	// cannot divide it; empty where each is encoded by itself.
	Together        string
	WarmupReference string // option of its repository for loss.warmup_epochs; empty if it has none
}

// spanWords bounds the words of a caption that Traits.Span speaks of.
const spanWords = 512

// cosines is the span of cosines.
const cosines = 2

// pooledSpan is the span of cosines that were pooled over up to spanWords words; lse is the factor of ln Σ e^(lse x),
// and divided says whether that is divided by it again.
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

// Name is the network in tables: its title, and the variant if there is one.
func (t *Traits) Name() string {
	if t.Variant == "" {
		return t.Title
	}
	return t.Title + " (" + t.Variant + ")"
}
