package cuda

import (
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// The starts of sequences follow from their lengths, and many kernels of a step need them; the words of rows follow
// from lengths and words. A table is made once and kept until lengths or words change. A recording makes its own
// tables, because it is replayed with other lengths.

// lengthKind says what a table of lengths lists.
type lengthKind int

const (
	packedStarts lengthKind = iota // dev.starts
	captionRows                    // dev.captions
	pairTables                     // dev.layout
	packedWords                    // dev.words
	captionWords                   // dev.captionWords
)

// lengthTable is a table with memory of its own.
type lengthTable struct {
	kind   lengthKind
	from   [2]driver.Ptr // lengths, and words if it lists them
	in     [2]extent     // the memory that contains them
	sizes  [4]int        // of the table
	holds  bool          // the table is up to date
	region region
}

// lengthTables are the most recently used tables, the last one at the end.
type lengthTables []*lengthTable

// mostLengthTables is more than a step of any network needs.
const mostLengthTables = 16

// changed invalidates the tables of memory that is written from an address on.
func (l lengthTables) changed(p driver.Ptr) {
	for _, t := range l {
		for _, in := range t.in {
			if in.lo <= p && p < in.hi {
				t.holds = false
			}
		}
	}
}

// forget invalidates all tables.
func (l lengthTables) forget() {
	for _, t := range l {
		t.holds = false
	}
}

// lengthTable returns memory of at least the given bytes for a table of lengths, and of words if they are present. If
// holds is false, the caller makes the table.
func (d *dev) lengthTable(kind lengthKind, lengths, words device.View, sizes [4]int, bytes int) (p driver.Ptr,
	holds bool) {
	var from [2]driver.Ptr
	var in [2]extent
	for i, v := range [2]device.View{lengths, words} {
		if v.Present() {
			b := v.Buf.(*buffer)
			from[i], in[i] = d.pointer(v), extent{b.ptr, at(b.ptr, b.n)}
		}
	}
	i := slices.IndexFunc(d.lengths, func(t *lengthTable) bool { return t.kind == kind && t.from == from })
	if i < 0 && len(d.lengths) < mostLengthTables {
		i = len(d.lengths)
		d.lengths = append(d.lengths, &lengthTable{})
	}
	i = max(i, 0) // in place of the least recently used
	t := d.lengths[i]
	d.lengths = append(slices.Delete(d.lengths, i, i+1), t)
	if t.kind != kind || t.from != from || t.sizes != sizes {
		t.kind, t.from, t.sizes, t.in = kind, from, sizes, in
		t.holds = false
	}
	p = d.room(&t.region, bytes)
	holds, t.holds = t.holds, d.full == nil
	return p, holds
}
