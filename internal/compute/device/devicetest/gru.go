package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// gruCase is one random layer and batch on the host.
type gruCase struct {
	i, h                           int
	lengths                        []int32
	rows                           [][2]int
	reverse                        bool
	x, wih, whh, bih, bhh, dy, fin []float64
}

func (h *harness) gruCase(i, n int, lengths []int32, reverse bool) *gruCase {
	rows := packed(lengths)
	sd := 1 / math.Sqrt(float64(n))
	return &gruCase{i: i, h: n, lengths: lengths, rows: rows, reverse: reverse,
		x: h.normal(len(rows)*i, 1), wih: h.normal(3*n*i, sd), whh: h.normal(3*n*n, sd), bih: h.normal(3*n, sd),
		bhh: h.normal(3*n, sd),
		dy:  h.normal(len(rows)*n, 1), fin: h.normal(len(lengths)*n, 1)}
}

// forward computes the definition of GRU one caption at a time.
func (c *gruCase) forward() (y, final, gates, prev []float64) {
	n, t := c.h, len(c.rows)
	y, final, gates, prev = make([]float64, t*n), make([]float64, len(c.lengths)*n), make([]float64, t*4*n),
		make([]float64, t*n)
	row := map[[2]int]int{}
	for p, r := range c.rows {
		row[r] = p
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for b, length := range c.lengths {
		state := make([]float64, n)
		for step := range int(length) {
			if c.reverse {
				step = int(length) - 1 - step
			}
			p := row[[2]int{b, step}]
			next := make([]float64, n)
			for k := range n {
				gx := [3]float64{c.bih[k], c.bih[n+k], c.bih[2*n+k]}
				gh := [3]float64{c.bhh[k], c.bhh[n+k], c.bhh[2*n+k]}
				for g := range 3 {
					for j := range c.i {
						gx[g] += c.wih[(g*n+k)*c.i+j] * c.x[p*c.i+j]
					}
					for j := range n {
						gh[g] += c.whh[(g*n+k)*n+j] * state[j]
					}
				}
				r, z := sigmoid(gx[0]+gh[0]), sigmoid(gx[1]+gh[1])
				m := math.Tanh(gx[2] + r*gh[2])
				next[k] = (1-z)*m + z*state[k]
				for g, v := range []float64{r, z, m, gh[2]} {
					gates[p*4*n+g*n+k] = v
				}
			}
			copy(prev[p*n:], state)
			copy(y[p*n:], next)
			state = next
		}
		copy(final[b*n:], state)
	}
	return y, final, gates, prev
}

// loss is Σ dy·y + Σ fin·final, whose gradients the kernel computes; a nil weight counts as zero.
func (c *gruCase) loss(dy, fin []float64) (s float64) {
	y, final, _, _ := c.forward()
	for i := range dy {
		s += dy[i] * y[i]
	}
	for i := range fin {
		s += fin[i] * final[i]
	}
	return s
}

func (h *harness) gruArgs(c *gruCase) device.GRU {
	t := len(c.rows)
	return device.GRU{I: c.i, H: c.h, Lengths: h.inInts(c.lengths), Reverse: c.reverse, X: h.in(c.x),
		// Two more rows than there are words: memory beyond them is left alone.
		Y: h.out((t + 2) * c.h),
		GRUDirection: device.GRUDirection{WIH: h.in(c.wih), WHH: h.in(c.whh), BIH: h.in(c.bih), BHH: h.in(c.bhh),
			Gates: h.out((t + 2) * 4 * c.h), Prev: h.out((t + 2) * c.h)}}
}

// padded appends NaN to a reference for the rows that are left alone.
func padded(x []float64, n int) []float64 {
	for range n {
		x = append(x, math.NaN())
	}
	return x
}

// gruSizes are inputs and units. Tensor cores take multiples of 32 units above 32; where views lie as in a training,
// only these are left to test.
func (h *harness) gruSizes() [][2]int {
	if h.guard == aligned {
		return [][2]int{{9, 64}, {40, 96}}
	}
	return [][2]int{{1, 1}, {3, 4}, {5, 17}, {37, 32}, {20, 75}}
}

func testGRU(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range h.gruSizes() {
			for _, reverse := range []bool{false, true} {
				c := h.gruCase(s[0], s[1], lengths, reverse)
				a := h.gruArgs(c)
				what := fmt.Sprintf("GRU(%d→%d) of %v reverse=%v", c.i, c.h, lengths, reverse)
				if n%2 == 0 {
					a.Final = h.out(len(lengths) * c.h)
				}
				h.run(what, func() { device.Do(h.d, a) })
				var y, final, gates, prev []float64
				if !h.short {
					y, final, gates, prev = c.forward()
				}
				h.equal(what+": Y", a.Y, padded(y, 2*c.h), h.tol.reduced)
				h.equal(what+": Gates", a.Gates, padded(gates, 8*c.h), h.tol.reduced)
				h.equal(what+": Prev", a.Prev, padded(prev, 2*c.h), h.tol.reduced)
				if a.Final.Present() {
					h.equal(what+": Final", a.Final, final, h.tol.reduced)
				}
				h.steady(what, func() { device.Do(h.d, a) })
				h.release()
			}
		}
	}
}

func testGRUGrad(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range h.gruSizes() {
			for _, reverse := range []bool{false, true} {
				h.gruGrad(h.gruCase(s[0], s[1], lengths, reverse), n%3 != 1, n%3 != 2, n%2 == 0)
			}
		}
	}
}

// gruGrad compares the derivatives along random directions with central differences of the reference.
func (h *harness) gruGrad(c *gruCase, withY, withFinal, withX bool) {
	what := fmt.Sprintf("GRUGrad(%d→%d) of %v reverse=%v DY=%v DFinal=%v", c.i, c.h, c.lengths, c.reverse, withY,
		withFinal)
	_, _, gates, prev := c.forward()
	a := h.gruArgs(c)
	a.Y, a.Gates, a.Prev = device.View{}, h.inout(gates), h.in(prev)
	var dy, fin []float64
	if withY {
		dy = c.dy
		a.DY = h.in(append(append([]float64(nil), dy...), math.NaN())) // longer than the words
	}
	if withFinal {
		fin = c.fin
		a.DFinal = h.in(fin)
	}
	if withX {
		a.DX = h.out(len(c.x) + 3)
	}
	h.gradOutputs(&a)
	h.run(what, func() { device.DoGrad(h.d, a) })
	for _, p := range []struct {
		name  string
		value []float64
		grad  device.View
	}{{"DX", c.x, a.DX}, {"DWIH", c.wih, a.DWIH}, {"DWHH", c.whh, a.DWHH}, {"DBIH", c.bih, a.DBIH},
		{"DBHH", c.bhh, a.DBHH}} {
		if p.grad.Present() {
			h.equalDifferences(what+": "+p.name, p.value, p.grad, differences{directions: h.directions(c), floor: 1e-3},
				func() float64 { return c.loss(dy, fin) })
		}
	}
	h.steady(what, func() { device.DoGrad(h.d, a) })
	h.release()
}

// directions is how many random directions are enough: few for large cases, whose reference is slow.
func (h *harness) directions(c *gruCase) int {
	if len(c.rows)*c.h > 2000 {
		return 1
	}
	return 3
}
