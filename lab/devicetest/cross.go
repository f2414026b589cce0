package devicetest

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Cases cross what a device may decide by: few pairs with a gradient or many, images with few regions, both sides as
// sources.
func testCrossScores(h *harness) {
	for i, s := range []struct {
		pairSizes
		e int
	}{
		{pairSizes{1, 1, []int32{1}}, 2}, {pairSizes{3, 5, []int32{4, 1, 6}}, 7},
		{pairSizes{20, 36, []int32{22, 7, 3}}, 24}, {pairSizes{2, 3, append(repeat(200, 3), 40)}, 5},
		{pairSizes{4, 2, repeat(9, 2)}, 33},
	} {
		for n := range 12 {
			a := device.CrossScores{B: s.b, R: s.r, E: s.e, OverWords: n%2 == 1, Max: n%6 > 3, Leaky: n%4 > 1,
				Softmax: n > 7, Lambda: 4, Pool: device.CrossPool((n + i) % 4), Factor: 3}
			crossScores(h, a, s.lengths, n%3 == 0)
		}
	}
}

func crossScores(h *harness, a device.CrossScores, lengths []int32, masked bool) {
	what := fmt.Sprintf("CrossScores of %v, %d images of %d regions of %d, over words %v, max %v, leaky %v, "+
		"softmax %v, pool %d, masked %v", lengths, a.B, a.R, a.E, a.OverWords, a.Max, a.Leaky, a.Softmax, a.Pool,
		masked)
	words, c := device.Total(lengths), len(lengths)
	few := h.without
	a.Lengths = h.inInts(lengths)
	// no context is near 0, and no two products are the greatest
	a.Regions, a.Words = h.in(h.positive(a.B*a.R*a.E, 0.1, 0.5)), h.in(h.positive(words*a.E, 0.1, 0.5))
	if masked {
		mask := make([]float64, a.B*a.R)
		for i := range mask {
			mask[i] = float64(pick(i%a.R <= i/a.R%a.R, 1, 0))
		}
		a.Mask = h.in(mask)
	}
	for _, some := range []bool{false, true} {
		b := a
		h.check(what, &b, all(10*h.tol.reduced))
		if h.roundsProducts() && (a.Max || a.Pool == device.CrossMaximum) {
			break // another one may be the greatest
		}
		if h.without = few; some && few == nil {
			h.without = func(p int) bool { return p%5 != 1 }
		}
		b.DScores = h.gradient(b.B*c, func(i int) int { return i })
		h.back(fmt.Sprint(what, ", some ", some), &b, h.slopes())
	}
	h.without = few
	h.release()
}
