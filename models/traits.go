package models

import (
	"math"
	"slices"

	"vsetrain/internal/system/options"
)

// Traits are what the rest of the program needs to know of a network without building it. The network's own file
// declares them for its options.
type Traits struct {
	Title   string // as papers write it
	Variant string // of the options, behind the title in tables; may be empty
	Order   int    // in tables, from 1
	// Apart: the LSEH paper lists the network in a table of its own, and not in its summary.
	Apart bool

	TextEncoders []string // those it is defined with, the published one first
	Section      string   // key under model of its options, if it has any
	Embeds       bool     // it has one vector per image and per caption; otherwise it scores pairs
	AnyRegions   bool     // the weights serve images of any number of regions
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
	// it brings a word <mask> of its own behind the vocabulary, with which the vocabulary may have been saved
	MaskWord        bool
	WarmupReference string // option of its repository for loss.warmup_epochs; empty if it has none
}

// Name is the network in tables: its title, and the variant if there is one.
func (t *Traits) Name() string {
	if t.Variant == "" {
		return t.Title
	}
	return t.Title + " (" + t.Variant + ")"
}

// encoderTitle is the text encoder of a network that has two, as papers write it.
func encoderTitle(o *Options) string {
	if o.TextEncoder == TextBert {
		return "BERT"
	}
	return "BiGRU"
}

// entry is what the file of a network registers.
type entry struct {
	build    builder
	defaults func(o *Options) // sets the network's own options; may be nil
	traits   func(o *Options) Traits
	check    func(o *Options) *options.Error // of the network's own options; may be nil
}

// registry maps the configuration's names to networks; a network's file adds itself in init.
var registry = map[string]entry{}

// Traits returns those of the network that the options name.
func (o *Options) Traits() Traits {
	e, ok := registry[o.Network]
	if !ok {
		return Traits{Title: o.Network, Order: math.MaxInt}
	}
	return e.traits(o)
}

// published returns the traits of a network with the published options.
func published(name string) Traits {
	o := DefaultOptions()
	o.Network = name
	return o.Traits()
}

// Having returns the names of the networks whose traits, with the published options, are as asked for, in their order.
func Having(is func(Traits) bool) (names []string) {
	order := map[string]int{}
	for _, name := range Available() {
		if t := published(name); is(t) {
			names, order[name] = append(names, name), t.Order
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return order[a] - order[b] })
	return names
}
