package stats

import (
	"math/bits"
	"slices"
)

// packed holds the values of units with several columns in a 64-bit word, less the smallest value, so that one addition
// sums them all: each field is wide enough for the sum of as many values as there are units.
type packed struct {
	width  int // columns
	low    int64
	bits   int // of a field
	fields int // in a word
	size   int // words of a unit
	words  []uint64
}

func newPacked(u Units) packed {
	n := u.Len()
	low, high := int64(slices.Min(u.Values)), int64(slices.Max(u.Values))
	p := packed{width: u.Width, low: low, bits: max(1, bits.Len64(uint64(high-low)*uint64(n)))}
	p.fields = 64 / p.bits
	p.size = (u.Width + p.fields - 1) / p.fields
	p.words = make([]uint64, n*p.size)
	for i, v := range u.Values {
		unit, c := i/u.Width, i%u.Width
		p.words[unit*p.size+c/p.fields] |= uint64(int64(v)-low) << (c % p.fields * p.bits)
	}
	return p
}

// add adds a unit to a sum.
func (p *packed) add(sum []uint64, unit int) {
	words := p.words[unit*p.size : unit*p.size+len(sum)]
	for i, w := range words {
		sum[i] += w
	}
}

// unpack writes the sums of the columns over that many units.
func (p *packed) unpack(dst []int64, sum []uint64, units int) {
	for c := range dst {
		field := sum[c/p.fields] >> (c % p.fields * p.bits) & (1<<p.bits - 1)
		dst[c] = int64(field) + int64(units)*p.low
	}
}
