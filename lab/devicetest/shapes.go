package devicetest

import (
	"math"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

// lengths1 are sizes of elementwise kernels.
var lengths1 = []int{1, 2, 15, 16, 17, 31, 64, 100, 1025, 20_011}

// lengthCases are batches of captions: equal, ragged, single words, one caption, and one of realistic size.
func (h *harness) lengthCases() [][]int32 {
	realistic := make([]int32, 23)
	n := int32(20)
	for i := range realistic {
		realistic[i] = n
		n = max(2, n-int32(h.rng.IntN(3)))
	}
	return [][]int32{{1}, {4}, {3, 3}, {4, 2, 1}, {7, 7, 5, 1, 1, 1}, {1, 1, 1, 1}, realistic}
}

// captionCases are captions that need not be in order.
var captionCases = [][]int32{{1}, {3, 5, 1}, {22, 7, 1, 1, 40}, {2, 2, 2, 2, 2, 2, 2, 2, 2}}

// packed lists (caption, step) of every packed row, by the definition of device.Packing.
func packed(lengths []int32) (rows [][2]int) {
	for t := range lengths[0] {
		for b, n := range lengths {
			if n > t {
				rows = append(rows, [2]int{b, int(t)})
			}
		}
	}
	return rows
}

func repeat(n int, v int32) []int32 { return slices.Repeat([]int32{v}, n) }

// captionOf returns the caption to which row j belongs. A caption has a row for each word and more rows.
func captionOf(lengths []int32, more, j int) int {
	for c, n := range lengths {
		if j -= int(n) + more; j < 0 {
			return c
		}
	}
	panic("devicetest: a row beyond the captions")
}

func pick(b bool, yes, no int) int {
	if b {
		return yes
	}
	return no
}

func nans(n int) []float64 { return slices.Repeat([]float64{math.NaN()}, n) }

// more is an input with n NaN after it, which no kernel reads.
func (h *harness) more(x []float64, n int) device.View { return h.in(slices.Concat(x, nans(n))) }

// positive draws n values above least.
func (h *harness) positive(n int, least, sd float64) []float64 {
	x := h.normal(n, sd)
	for i, v := range x {
		x[i] = least + math.Abs(v)
	}
	return h.hold(x)
}

// drops is a dropout of rows with any numbers, of which every fifth or so is none; without a rate it is not dropout.
// The low half of its step is 2³²-2.
func (h *harness) drops(rate float64, key philox.Key, rows int) device.DropoutParams {
	if rate == 0 {
		return device.DropoutParams{}
	}
	numbers := make([]int32, rows)
	for i := range numbers {
		if numbers[i] = -1; h.rng.IntN(5) > 0 {
			numbers[i] = int32(h.rng.Uint32() >> 1)
		}
	}
	return device.DropoutParams{Rate: rate, Key: key, Step: h.inInts([]int32{-2, 5}), Rows: h.inInts(numbers).View}
}

// gradient draws the gradient of n results, element i of which belongs to a pair of an image and a caption; 0, of
// either sign, for the pairs that are to have none (without).
func (h *harness) gradient(n int, pair func(i int) int) device.View { return h.in(h.slope(n, pair)) }

func (h *harness) slope(n int, pair func(i int) int) []float64 {
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
	for i, v := range h.read(grad)[:grad.N] {
		if !math.IsNaN(v) && h.without(pair(i)) && v != 0 {
			h.errorf("%s: element %d belongs to a pair without gradient and is %v, want 0", what, i, v)
			return
		}
	}
}
