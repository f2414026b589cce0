package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

func testPoolWeights(h *harness) {
	for n, lengths := range h.lengthCases() {
		a := device.PoolWeights{L: int(lengths[0]) + n%3, Temperature: 0.1, Lengths: h.inInts(lengths),
			Scores: h.more(h.normal(device.Total(lengths), 0.3), 1)}
		h.bothWays(fmt.Sprintf("PoolWeights of %v", lengths), &a, all(10*h.tol.exact),
			bounds{"": {abs: 100 * h.tol.exact}})
		h.release()
	}
}

func testSortPool(h *harness) {
	unsorted := []int32{2, 5, 1, 3, 5, 5}
	long := make([]int32, 9)
	for i := range long {
		long[i] = int32(40 - 3*i)
	}
	cases := append(h.lengthCases(), long)
	for i, d := range []int{1, 15, 33, 600} {
		for n, lengths := range cases {
			if d != 33 && n >= len(cases)-2 && n%2 == i%2 || d == 600 && n < 4 { // one of two long cases
				continue
			}
			sortPool(h, device.SortPool{D: d, K: int(lengths[0]) + n%2, Packed: true}, lengths)
		}
		sortPool(h, device.SortPool{D: d, K: 6}, unsorted)
		if d == 33 {
			sortPool(h, device.SortPool{D: d, K: 40}, long)
		}
	}
	for p := range 3 { // a value that is not a number must stay visible
		x := h.normal(3, 1)
		x[p] = math.NaN()
		h.check("SortPool of NaN", &device.SortPool{D: 1, K: 3, Lengths: h.inInts([]int32{3}), X: h.in(x),
			Weights: h.in(h.normal(9, 1))}, bounds{"Ranks": {free: true}})
		h.release()
	}
}

func sortPool(h *harness, a device.SortPool, lengths []int32) {
	what := fmt.Sprintf("SortPool of %v, packed %v, D %d", lengths, a.Packed, a.D)
	x := h.normal(device.Total(lengths)*a.D, 1)
	for i := range x {
		switch {
		case h.definition: // values that are close have no slope
			x[i] = math.Round(8*x[i])/8 + float64(i/a.D)/4096
		case i%5 == 0: // ties, also between the two zeros
			x[i] = []float64{0.5, math.Copysign(0, -1), 0, 0.5}[i/5%4]
		}
	}
	// Two more rows than there are: memory beyond them is left alone.
	a.Lengths, a.X, a.Weights = h.inInts(lengths), h.more(x, 2*a.D), h.in(h.normal(a.K*a.K, 1))
	tol := bounds{"": {rel: h.tol.product}, "DX": {rel: h.tol.exact}}
	h.bothWays(what, &a, tol, tol)
	a.DX, a.DWeights = h.out(len(x)), device.View{}
	h.check(what+" gradient, only DX", &a, tol)
	a.DX, a.DWeights = device.View{}, h.out(a.K*a.K)
	h.check(what+" gradient, only DWeights", &a, tol)
	h.release()
}

func testSegments(h *harness) {
	for _, counts := range h.lengthCases() {
		for _, d := range []int{1, 7, 64} {
			segments(h, counts, d)
		}
	}
}

func segments(h *harness, counts []int32, d int) {
	what, rows := fmt.Sprintf("segments of %v rows of %d", counts, d), device.Total(counts)
	h.transpose(what, &device.SegmentMeans{Rows: h.in(h.normal(rows*d, 1)), Counts: h.inInts(counts), D: d},
		all(h.tol.product), "Means", "Rows")
	for _, back := range []bool{false, true} {
		a := device.UnpackWords{Src: h.in(h.normal(rows*d, 1)), Lengths: h.inInts(counts), D: d, Back: back}
		h.check(fmt.Sprintf("%s unpacked, back %v", what, back), &a, nil)
	}
	a := device.GatedPool{D: d, Counts: h.inInts(counts), L: h.in(h.normal(rows*d, 1)), X: h.in(h.normal(rows*d, 1)),
		G: h.in(h.normal(len(counts)*d, 1)), W: h.in(h.normal(d, 0.5))}
	h.bothWays("GatedPool, "+what, &a, all(10*h.tol.product), h.slopes())
	h.release()
}
