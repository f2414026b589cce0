package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

// gruSizes are inputs and units. Tensor cores take multiples of 32 units above 32; aligned views test only these.
func gruSizes(h *harness) [][2]int {
	if h.guard == aligned {
		return [][2]int{{9, 64}, {40, 96}}
	}
	return [][2]int{{1, 1}, {3, 4}, {5, 17}, {37, 32}, {20, 75}}
}

// direction draws the weights of a direction.
func direction(h *harness, i, n int) device.GRUDirection {
	sd := 1 / math.Sqrt(float64(n))
	return device.GRUDirection{WIH: h.in(h.normal(3*n*i, sd)), WHH: h.in(h.normal(3*n*n, sd)),
		BIH: h.in(h.normal(3*n, sd)), BHH: h.in(h.normal(3*n, sd))}
}

// ofRecurrence bounds the gradients of a recurrence, which may overwrite what it reads.
func ofRecurrence(h *harness) bounds {
	return bounds{"": {norm: h.tol.deriv, floor: 1e-3}, "Gates": {free: true}, work: {free: true}}
}

func gru(h *harness, i, n int, lengths []int32, reverse bool) (what string, a device.GRU) {
	return fmt.Sprintf("GRU(%d→%d) of %v reverse=%v", i, n, lengths, reverse), device.GRU{I: i, H: n,
		Lengths: h.inInts(lengths), Reverse: reverse, X: h.in(h.normal(device.Total(lengths)*i, 1)),
		GRUDirection: direction(h, i, n)}
}

func testGRU(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range gruSizes(h) {
			for _, reverse := range []bool{false, true} {
				what, a := gru(h, s[0], s[1], lengths, reverse)
				if n%2 == 0 {
					a.Final = h.out(len(lengths) * a.H)
				}
				h.check(what, &a, all(h.tol.reduced))
				h.release()
			}
		}
	}
}

func testGRUGrad(h *harness) {
	for n, lengths := range h.lengthCases() {
		var without []string
		if n%3 == 1 {
			without = append(without, "DY")
		}
		if n%3 == 2 {
			without = append(without, "DFinal")
		}
		if n%2 == 1 {
			without = append(without, "DX")
		}
		for _, s := range gruSizes(h) {
			for _, reverse := range []bool{false, true} {
				what, a := gru(h, s[0], s[1], lengths, reverse)
				a.Final = h.out(len(lengths) * a.H)
				h.bothWays(fmt.Sprintf("%s without %v", what, without), &a, all(h.tol.reduced), ofRecurrence(h),
					without...)
				h.release()
			}
		}
	}
}

// bigru draws both directions. turned gives the second direction the lower addresses: a device may take advantage of
// one order.
func bigru(h *harness, i, n int, lengths []int32, turned bool) (what string, a device.BiGRU) {
	a = device.BiGRU{I: i, H: n, Lengths: h.inInts(lengths), X: h.in(h.normal(device.Total(lengths)*i, 1))}
	for k := range a.Directions {
		a.Directions[pick(turned, 1-k, k)] = direction(h, i, n)
	}
	return fmt.Sprintf("BiGRU(%d→%d) of %v turned=%v", i, n, lengths, turned), a
}

func testBiGRU(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range gruSizes(h) {
			what, a := bigru(h, s[0], s[1], lengths, n%2 == 1)
			h.check(what, &a, bounds{"": {rel: h.tol.reduced}, work: {free: true}})
			h.release()
		}
	}
}

func testBiGRUGrad(h *harness) {
	for n, lengths := range h.lengthCases() {
		var without []string
		if n%3 == 1 {
			without = append(without, "DX")
		}
		for _, s := range gruSizes(h) {
			what, a := bigru(h, s[0], s[1], lengths, n%2 == 0)
			h.bothWays(fmt.Sprintf("%s without %v", what, without), &a,
				bounds{"": {rel: h.tol.reduced}, work: {free: true}}, ofRecurrence(h), without...)
			h.release()
		}
	}
}

func testCells(h *harness) {
	for _, s := range [][2]int{{1, 1}, {3, 5}, {7, 32}, {40, 75}} {
		n, hid := s[0], s[1]
		what, before := fmt.Sprintf("GRUCell %v", s), h.in(h.normal(n*hid, 1))
		gates := device.GRUCell{N: n, H: hid, Gates: h.inout(h.normal(n*4*hid, 1)), Hidden: h.in(h.normal(n*3*hid, 1)),
			Before: before}
		once := gates
		once.Gates = h.inout(h.read(gates.Gates))
		h.defined(&once)
		h.check(what, &gates, bounds{"": {rel: h.tol.product}, "Prev": {}})
		for _, with := range []bool{true, false} {
			g := device.GRUCell{N: n, H: hid, Gates: h.inout(h.want(once.Gates)), Prev: before,
				Carry: h.inout(h.normal(n*hid, 1))}
			if g.Grad = true; with {
				g.DY = h.in(h.normal(n*hid, 1))
			}
			h.check(what+" gradient", &g, h.slopes())
		}
		h.release()
	}
}

func testAttention(h *harness) {
	for _, s := range [][4]int{{1, 1, 1, 1}, {2, 3, 5, 4}, {5, 36, 17, 33}, {3, 7, 128, 64}} {
		b, r, n, e := s[0], s[1], s[2], s[3]
		what, tol := fmt.Sprintf("AdditiveAttention %v", s), all(4*h.tol.product)
		a := device.AdditiveAttention{B: b, R: r, H: n, E: e, Keys: h.in(h.normal(b*r*n, 1)),
			Query: h.in(h.normal(b*n, 1)), Vector: h.in(h.normal(n, 1)), Values: h.in(h.normal(b*r*e, 1))}
		h.check(what, &a, tol)
		a.DKeys, a.DValues, a.DVector = h.inout(h.normal(b*r*n, 1)), h.inout(h.normal(b*r*e, 1)),
			h.inout(h.normal(b*n, 1)) // added to
		h.back(what, &a, tol)
		h.release()
	}
}

// testDecoder compares all steps of a decoder with attention at once.
func testDecoder(h *harness) {
	for _, c := range []struct {
		h, r    int
		lengths []int32
		rate    float64
	}{
		{32, 3, []int32{3, 2, 1}, 0},
		{64, 36, []int32{3, 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 0.25},
		{64, 5, []int32{3, 3, 3}, 0.5},
	} {
		n, r, b, rows, small := c.h, c.r, len(c.lengths), device.Total(c.lengths), 1/math.Sqrt(float64(c.h))
		a := device.Decoder{R: r, H: n, A: n, E: n, Lengths: h.inInts(c.lengths), Keys: h.in(h.normal(b*r*n, 1)),
			Regions: h.in(h.normal(b*r*n, 1)), Initial: h.in(h.normal(b*n, 1)), Score: h.in(h.normal(n, 3*small)),
			Attend: h.in(h.normal(n*2*n, small)), LDAttend: 2 * n, WHH: h.in(h.normal(3*n*n, small)),
			WIH: h.in(h.normal(3*n*(n+1), small)), LDWIH: n + 1, BHH: h.in(h.normal(3*n, small)),
			Gates: h.inout(h.normal(rows*4*n, 1)), Drop: h.drops(c.rate, philox.NewKey(3, "context"), rows)}
		what := fmt.Sprintf("decoder of %d units, %d regions, %v", n, r, c.lengths)
		h.check(what, &a, all(h.tol.reduced))
		a.DQuery = h.out(rows * n)
		h.back(what, &a, h.slopes())
		h.release()
	}
}
