package stats

import (
	"math/bits"
	"slices"
)

// packed holds the values of units with several columns in each 64-bit word, so that one addition adds several columns.
// The smallest value is subtracted, and each field is wide enough for the sum over all units.
type packed struct {
	width  int // columns
	low    int64
	bits   int // of a field
	fields int // in a word
	size   int // words of a unit
	words  []uint64
}

func newPacked(u Units) packed {
	n := u.count()
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
	for i, w := range p.words[unit*p.size : unit*p.size+len(sum)] {
		sum[i] += w
	}
}

// unpack writes the column sums of a sum over the given number of units.
func (p *packed) unpack(dst []int64, sum []uint64, units int) {
	for c := range dst {
		field := sum[c/p.fields] >> (c % p.fields * p.bits) & (1<<p.bits - 1)
		dst[c] = int64(field) + int64(units)*p.low
	}
}
