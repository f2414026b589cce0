package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// biCase is a layer of two directions over one batch: [1] reads backwards.
type biCase [2]*gruCase

func (h *harness) biCase(i, n int, lengths []int32) (c biCase) {
	for k := range c {
		c[k] = h.gruCase(i, n, lengths, k == 1)
	}
	c[1].x = c[0].x
	return c
}

// loss is Σ dy·(→h + ←h)/2.
func (c biCase) loss(dy []float64) float64 {
	return (c[0].loss(dy, nil) + c[1].loss(dy, nil)) / 2
}

// biArgs places what both passes read. turned gives the second direction the lower addresses: a device may take
// advantage of one order.
func (h *harness) biArgs(c biCase, turned bool) device.BiGRU {
	a := device.BiGRU{I: c[0].i, H: c[0].h, Lengths: h.inInts(c[0].lengths), X: h.in(c[0].x)}
	t := len(c[0].rows)
	for n := range c {
		k := n
		if turned {
			k = 1 - n
		}
		a.Directions[k] = device.GRUDirection{WIH: h.in(c[k].wih), WHH: h.in(c[k].whh), BIH: h.in(c[k].bih),
			BHH: h.in(c[k].bhh), Gates: h.out((t + 2) * 4 * c[k].h), Prev: h.out((t + 2) * c[k].h)}
	}
	return a
}

func testBiGRU(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range h.gruSizes() {
			c, turned := h.biCase(s[0], s[1], lengths), n%2 == 1
			a, t := h.biArgs(c, turned), len(c[0].rows)
			a.Y, a.Work = h.out((t+2)*a.H), h.out(t*a.H)
			what := fmt.Sprintf("BiGRU(%d→%d) of %v turned=%v", a.I, a.H, lengths, turned)
			h.run(what, func() { device.Do(h.d, a) })
			mean := make([]float64, t*a.H)
			for k := range c {
				var y, gates, prev []float64
				if !h.short {
					y, _, gates, prev = c[k].forward()
				}
				for i, v := range y {
					mean[i] += v / 2
				}
				h.equal(fmt.Sprintf("%s: Gates %d", what, k), a.Directions[k].Gates, padded(gates, 8*a.H),
					h.tol.reduced)
				h.equal(fmt.Sprintf("%s: Prev %d", what, k), a.Directions[k].Prev, padded(prev, 2*a.H), h.tol.reduced)
			}
			h.equal(what+": Y", a.Y, padded(mean, 2*a.H), h.tol.reduced)
			h.steady(what, func() { device.Do(h.d, a) })
			h.release()
		}
	}
}

func testBiGRUGrad(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range h.gruSizes() {
			h.biGRUGrad(h.biCase(s[0], s[1], lengths), n%3 != 1, n%2 == 0)
		}
	}
}

func (h *harness) biGRUGrad(c biCase, withX, turned bool) {
	a, t, n := h.biArgs(c, turned), len(c[0].rows), c[0].h
	what := fmt.Sprintf("BiGRUGrad(%d→%d) of %v DX=%v turned=%v", a.I, n, c[0].lengths, withX, turned)
	type result struct {
		name  string
		value []float64
		grad  device.View
	}
	var results []result
	size := t * n
	if withX {
		a.DX, size = h.out(len(c[0].x)+3), t*(n+a.I)
		results = append(results, result{"DX", c[0].x, a.DX})
	}
	a.Work = h.out(size)
	dy := h.normal(t*n, 1)
	a.DY = h.in(append(append([]float64(nil), dy...), math.NaN())) // longer than the words
	for k := range c {
		_, _, gates, prev := c[k].forward()
		w := &a.Directions[k]
		w.Gates, w.Prev = h.inout(gates), h.in(prev)
		w.DWIH, w.DWHH, w.DBIH, w.DBHH = h.out(len(c[k].wih)), h.out(len(c[k].whh)), h.out(3*n), h.out(3*n)
		for i, r := range []result{{"DWIH", c[k].wih, w.DWIH}, {"DWHH", c[k].whh, w.DWHH}, {"DBIH", c[k].bih, w.DBIH},
			{"DBHH", c[k].bhh, w.DBHH}} {
			if i%2 == k || t*n < 500 { // the reference of large cases is slow
				r.name = fmt.Sprintf("%s %d", r.name, k)
				results = append(results, r)
			}
		}
	}
	h.run(what, func() { device.DoGrad(h.d, a) })
	for _, r := range results {
		h.equalDifferences(what+": "+r.name, r.value, r.grad, differences{directions: h.directions(c[0]), floor: 1e-3},
			func() float64 { return c.loss(dy) })
	}
	h.steady(what, func() { device.DoGrad(h.d, a) })
	h.release()
}
