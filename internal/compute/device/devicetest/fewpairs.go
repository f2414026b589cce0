package devicetest

import (
	"math"

	"vsetrain/internal/compute/device"
)

// With the hardest negatives alone in the loss most pairs of an image and a caption have no gradient, and a device may
// pass over them. What it computes is the same; these cases have a few pairs with a gradient, alone and side by side,
// and some whose gradient is in part 0.
func testFewPairs(h *harness) {
	lengths := []int32{3, 1, 4, 2, 6, 1, 2}
	for _, without := range []func(pair int) bool{
		func(p int) bool { return p%len(lengths) == 0 || p%5 > 1 }, // one caption with none at all
		func(p int) bool { return p%9 == 4 },                       // nearly all have one
		func(p int) bool { return p/len(lengths) != 1 },            // one image has all
		func(int) bool { return true },
	} {
		h.without = without
		for _, first := range []bool{false, true} {
			h.graphReason(lengths, 18, 4, first, false)
			h.filtrate(lengths, 4, 3, first)
			h.pairAttention(lengths, 17, 36, first)
			h.similarities(lengths, 17, 2, 5, 3, first, false)
			h.similarities(lengths, 17, 2, 5, 3, first, true)
		}
		h.graphReason(lengths, 3, 4, false, true)
		h.blockMatch(2, matchSizes{pairSizes{10, 36, lengths}, 8, 2})
		testScaleBlocks(h)
	}
	h.without = nil
}

// gradient draws the gradient of n results, element i of which belongs to a pair of an image and a caption; 0, of
// either sign, for the pairs that are to have none.
func (h *harness) gradient(n int, pair func(i int) int) []float64 {
	d := h.normal(n, 1)
	if h.without == nil {
		return d
	}
	last := -1
	for i := range d {
		p := pair(i)
		// of some pairs the first element alone, of some all but that
		if h.without(p) || p%11 == 1 && p == last || p%11 == 2 && p != last {
			d[i] = math.Copysign(0, d[i])
		}
		last = p
	}
	return d
}

// passedOver fails unless what goes back to a pair without gradient is 0.
func (h *harness) passedOver(what string, grad device.View, pair func(i int) int) {
	h.t.Helper()
	if h.without == nil || h.short {
		return
	}
	for i, v := range h.read(grad) {
		if h.without(pair(i)) && v != 0 {
			h.errorf("%s: element %d belongs to a pair without gradient and is %v, want 0", what, i, v)
			return
		}
	}
}

// captionOf returns the caption to which row j belongs; captions have more rows each than words, by the given number.
func captionOf(lengths []int32, more, j int) int {
	for c, n := range lengths {
		if j -= int(n) + more; j < 0 {
			return c
		}
	}
	panic("devicetest: a row beyond the captions")
}
