package cuda

import (
	"slices"
	"testing"

	"vsetrain/internal/compute/philox"
)

// A set of spans holds what a table of booleans does, in order and without spans that touch.
func TestSpans(t *testing.T) {
	const n = 40
	rng := philox.NewKey(3, "spans").Stream(0)
	draw := func() (int, int) {
		lo := int(rng.Uint32() % n)
		return lo, lo + int(rng.Uint32())%(n+1-lo)
	}
	var s spans
	var table [n]bool
	for step := range 5000 {
		lo, hi := draw()
		in := rng.Uint32()%2 == 0
		if in {
			s.add(lo, hi)
		} else {
			s.drop(lo, hi)
		}
		for i := lo; i < hi; i++ {
			table[i] = in
		}
		var want spans
		for i, x := range table {
			if x && (i == 0 || !table[i-1]) {
				want = append(want, span{i, n})
			}
			if !x && i > 0 && table[i-1] {
				want[len(want)-1].hi = i
			}
		}
		if !slices.Equal(s, want) {
			t.Fatalf("step %d, %v [%d, %d): %v, want %v", step, in, lo, hi, s, want)
		}
		lo, hi = draw()
		gap := span{lo, hi}
		for gap.lo < gap.hi && table[gap.lo] {
			gap.lo++
		}
		for gap.hi > gap.lo && table[gap.hi-1] {
			gap.hi--
		}
		if got := s.missing(lo, hi); got != gap && !(got.lo == got.hi && gap.lo == gap.hi) {
			t.Fatalf("step %d: %v lacks %v of [%d, %d), want %v", step, s, got, lo, hi, gap)
		}
	}
}
