package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

func testDropout(h *harness) {
	key := philox.NewKey(3, "dropout")
	for _, n := range []int{1, 3, 4, 17, 1000, 40_003} {
		for _, rate := range []float64{0, 0.2, 0.5} {
			for _, first := range []int{0, 1, 6} {
				step := []int32{-2, 5} // the low half is 2³²-2
				x, y := h.normal(n, 1), make([]float64, n)
				kept := 0
				for i := range y {
					at := first + i
					if words := key.Block(5<<32|0xfffffffe, uint64(at/4)); words[at%4] >= uint32(rate*(1<<32)) {
						y[i] = x[i] / (1 - rate)
						kept++
					}
				}
				what := fmt.Sprintf("Dropout %v of %d from %d", rate, n, first)
				if sd := math.Sqrt(float64(n) * rate *
					(1 - rate)); math.Abs(float64(kept)-float64(n)*(1-rate)) > 5*sd+1e-9 {
					h.t.Errorf("%s keeps %d", what, kept)
				}
				a := device.Dropout{Rate: rate, Key: key, Step: h.inInts(step), First: first, X: h.in(x),
					Y: h.out(n)}
				h.run(what, func() { device.Do(h.d, a) })
				h.equal(what, a.Y, y, h.tol.exact)
				h.steady(what, func() { device.Do(h.d, a) })
				a.X = h.inout(x)
				a.Y = a.X
				h.run(what+" in place", func() { device.Do(h.d, a) })
				h.equal(what+" in place", a.Y, y, h.tol.exact)
				h.release()
			}
		}
	}
}

func testSwapAxes(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 1}, {4, 36, 7}, {128, 3, 200}, {2, 9, 20_000}} {
		a, b, inner := s[0], s[1], s[2]
		x, y := h.normal(a*b*inner, 1), make([]float64, a*b*inner)
		for i := range a {
			for j := range b {
				copy(y[(j*a+i)*inner:], x[(i*b+j)*inner:][:inner])
			}
		}
		vx, dst := h.in(x), h.out(len(x))
		what := fmt.Sprintf("SwapAxes %v", s)
		h.run(what, func() { device.Do(h.d, device.SwapAxes{Dst: dst, X: vx, A: a, B: b, Inner: inner}) })
		h.equal(what, dst, y, 0)
		h.steady(what, func() { device.Do(h.d, device.SwapAxes{Dst: dst, X: vx, A: a, B: b, Inner: inner}) })
		h.release()
	}
}
