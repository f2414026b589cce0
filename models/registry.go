package models

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"vsetrain/internal/system/options"
)

// entry is what the file of a network registers.
type entry struct {
	build    builder
	defaults func(o *Options) // sets the network's own options; may be nil
	traits   func(o *Options) Traits
	check    func(o *Options) *options.Error // of the network's own options; may be nil
}

type builder func(o Options, d Dims) (Network, error)

// registry maps the configuration's names to networks; a network's file adds itself in init.
var registry = map[string]entry{}

// newNetwork builds the network that the options name.
func newNetwork(o Options, d Dims) (Network, error) {
	if d.Regions < 1 || d.Feature < 1 || d.Vocab < 1 {
		return nil, fmt.Errorf("network %s: regions %d, feature size %d and vocabulary %d must be positive", o.Network,
			d.Regions, d.Feature, d.Vocab)
	}
	e, ok := registry[o.Network]
	if !ok {
		return nil, fmt.Errorf("network %s is not available in this version; available: %v", o.Network, Available())
	}
	n, err := e.build(o, d)
	if err == nil && o.WordFrozen {
		err = freezeWords(n)
	}
	return n, err
}

// Available returns the names of the networks that can be built.
func Available() []string {
	return slices.Sorted(maps.Keys(registry))
}

// Traits returns the traits of the network that the options name.
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

// NamesWhere returns the names of the networks whose traits, with the published options, are as asked for, in their
// order.
func NamesWhere(is func(Traits) bool) (names []string) {
	order := map[string]int{}
	for _, name := range Available() {
		if t := published(name); is(t) {
			names, order[name] = append(names, name), t.Order
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return order[a] - order[b] })
	return names
}
