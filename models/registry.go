package models

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"vsetrain/internal/system/options"
)

// entry is the registration of a network, by its file.
type entry struct {
	build    func(o Options, d Dims) (Network, error)
	defaults func(o *Options) // sets the options of the network; may be nil
	traits   func(o *Options) Traits
	check    func(o *Options) *options.Error // checks the options of the network; may be nil
}

// registry holds the networks by their names in the configuration. The file of a network adds it in init.
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

// NamesWhere returns the names of the networks whose traits, with the published options, satisfy is, in their order.
func NamesWhere(is func(Traits) bool) (names []string) {
	names = slices.DeleteFunc(Available(), func(name string) bool { return !is(published(name)) })
	slices.SortStableFunc(names, func(a, b string) int { return published(a).Order - published(b).Order })
	return names
}
