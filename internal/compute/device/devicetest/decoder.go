package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// attentionCase is the definition of AdditiveAttention on the host.
type attentionCase struct {
	b, r, h, e                  int
	keys, query, vector, values []float64
	weights, context            []float64
}

func (c *attentionCase) forward() {
	c.weights, c.context = make([]float64, c.b*c.r), make([]float64, c.b*c.e)
	for b := range c.b {
		var sum float64
		for r := range c.r {
			var s float64
			for k := range c.h {
				s += c.vector[k] * math.Tanh(c.keys[(b*c.r+r)*c.h+k]+c.query[b*c.h+k])
			}
			c.weights[b*c.r+r] = math.Exp(s)
			sum += math.Exp(s)
		}
		for r := range c.r {
			c.weights[b*c.r+r] /= sum
			for k := range c.e {
				c.context[b*c.e+k] += c.weights[b*c.r+r] * c.values[(b*c.r+r)*c.e+k]
			}
		}
	}
}

func testAttention(h *harness) {
	for _, s := range [][4]int{{1, 1, 1, 1}, {2, 3, 5, 4}, {5, 36, 17, 33}, {3, 7, 128, 64}} {
		c := &attentionCase{b: s[0], r: s[1], h: s[2], e: s[3], keys: h.normal(s[0]*s[1]*s[2], 1),
			query: h.normal(s[0]*s[2], 1), vector: h.normal(s[2], 1), values: h.normal(s[0]*s[1]*s[3], 1)}
		c.forward()
		what := fmt.Sprintf("AdditiveAttention %v", s)
		a := device.AdditiveAttention{B: c.b, R: c.r, H: c.h, E: c.e, Keys: h.in(c.keys), Query: h.in(c.query),
			Vector: h.in(c.vector), Values: h.in(c.values)}
		h.outputs(&a)
		h.run(what, func() { device.Do(h.d, a) })
		h.equal(what+": weights", a.Weights, c.weights, 4*h.tol.product)
		h.equal(what+": context", a.Context, c.context, 4*h.tol.product)
		h.steady(what, func() { device.Do(h.d, a) })

		dContext, before := h.normal(c.b*c.e, 1), h.normal(len(c.keys)+len(c.values)+c.b*c.h, 1)
		keys, values, vector := before[:len(c.keys)], before[len(c.keys):len(c.keys)+len(c.values)],
			before[len(c.keys)+len(c.values):]
		a.Weights, a.Context, a.DContext = h.in(c.weights), device.View{}, h.in(dContext)
		a.DKeys, a.DValues, a.DVector = h.inout(keys), h.inout(values), h.inout(vector) // added to
		h.gradOutputs(&a)
		h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
		loss := func() (s float64) {
			c.forward()
			for i, v := range c.context {
				s += v * dContext[i]
			}
			return s
		}
		h.equalDifferences(what+": DQuery", c.query, a.DQuery, usual, loss)
		h.equalDifferences(what+": DKeys", c.keys, h.less(a.DKeys, keys), usual, loss)
		h.equalDifferences(what+": DValues", c.values, h.less(a.DValues, values), usual, loss)
		parts := h.read(h.less(a.DVector, vector))
		total := make([]float64, c.h)
		for i, v := range parts {
			total[i%c.h] += v
		}
		h.equalDifferences(what+": DVector", c.vector, h.in(total), usual, loss)
		h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.release()
	}
}

// less returns a view of v - before.
func (h *harness) less(v device.View, before []float64) device.View {
	x := h.read(v)
	for i := range x {
		x[i] -= before[i]
	}
	return h.in(x)
}

// testCells holds the steps of a GRU against the whole sequence of one caption at a time, whose conformance is that of
// testGRU.
func testCells(h *harness) {
	for _, s := range [][2]int{{1, 1}, {3, 5}, {7, 32}, {40, 75}} {
		n, hid := s[0], s[1]
		what := fmt.Sprintf("GRUCell %v", s)
		gates, hidden, before := h.normal(n*4*hid, 1), h.normal(n*3*hid, 1), h.normal(n*hid, 1)
		dy, carry := h.normal(n*hid, 1), h.normal(n*hid, 1)
		c := &cellCase{n: n, h: hid, gates: gates, hidden: hidden, before: before}
		c.forward()
		a := device.GRUCell{N: n, H: hid, Gates: h.inout(gates), Hidden: h.in(hidden), Before: h.in(before)}
		h.outputs(&a)
		h.run(what, func() { device.Do(h.d, a) })
		h.equal(what+": gates", a.Gates, c.out, h.tol.product)
		h.equal(what+": y", a.Y, c.y, h.tol.product)
		h.equal(what+": prev", a.Prev, before, 0)
		h.steady(what, func() { device.Do(h.d, a) })

		for _, with := range []bool{true, false} {
			g := device.GRUCell{N: n, H: hid, Gates: h.inout(c.out), Prev: h.in(before), Carry: h.inout(carry)}
			if with {
				g.DY = h.in(dy)
			}
			h.run(what+" gradient", func() { device.DoGrad(h.d, g) })
			loss := func() (s float64) {
				c.forward()
				for i, v := range c.y {
					if s += v * carry[i]; with {
						s += v * dy[i]
					}
				}
				return s
			}
			back := h.read(g.Gates)
			dHidden, dGates := make([]float64, n*3*hid), make([]float64, n*4*hid)
			for r := range n {
				row := back[r*4*hid:]
				copy(dHidden[r*3*hid:], row[hid:4*hid])
				copy(dGates[r*4*hid:], row[hid:3*hid])
				copy(dGates[r*4*hid+2*hid:], row[:hid])
			}
			h.equalDifferences(what+": hidden", c.hidden, h.in(dHidden), usual, loss)
			h.equalDifferences(what+": gates", c.gates, h.in(dGates), usual, loss)
			h.equalDifferences(what+": before", c.before, g.Carry, usual, loss)
			h.steady(what+" gradient", func() { device.DoGrad(h.d, g) })
		}
		h.release()
	}
}

type cellCase struct {
	n, h                  int
	gates, hidden, before []float64
	out, y                []float64
}

func (c *cellCase) forward() {
	c.out, c.y = make([]float64, c.n*4*c.h), make([]float64, c.n*c.h)
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for i := range c.n {
		gx, gh, out := c.gates[i*4*c.h:], c.hidden[i*3*c.h:], c.out[i*4*c.h:]
		for k := range c.h {
			r, z := sigmoid(gx[k]+gh[k]), sigmoid(gx[c.h+k]+gh[c.h+k])
			n := math.Tanh(gx[2*c.h+k] + r*gh[2*c.h+k])
			out[k], out[c.h+k], out[2*c.h+k], out[3*c.h+k] = r, z, n, gh[2*c.h+k]
			c.y[i*c.h+k] = (1-z)*n + z*c.before[i*c.h+k]
		}
	}
}

func testCrossEntropy(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, v := range []int{1, 5, 130, 2500} {
			h.crossEntropy(lengths, int(lengths[0])+1+n%3, v)
		}
	}
}

func (h *harness) crossEntropy(lengths []int32, columns, v int) {
	rows := packed(lengths)
	labels, mask := make([]int32, len(lengths)*columns), make([]int32, len(lengths)*columns)
	for i := range labels {
		labels[i], mask[i] = guardInt, guardInt // what no step predicts is never read
	}
	for _, r := range rows {
		labels[r[0]*columns+r[1]+1] = int32(h.rng.IntN(v))
		mask[r[0]*columns+r[1]+1] = int32(h.rng.IntN(4) / 2)
	}
	logits := h.normal(len(rows)*v, 3)
	logits[0] = 60 // far from 0
	const scale = 0.25
	norm := make([]float64, len(rows))
	loss := func() (s float64) {
		for p, r := range rows {
			var sum float64
			for _, x := range logits[p*v : (p+1)*v] {
				sum += math.Exp(x)
			}
			norm[p] = math.Log(sum)
			at := r[0]*columns + r[1] + 1
			s += scale * float64(mask[at]) * (norm[p] - logits[p*v+int(labels[at])])
		}
		return s
	}
	want := loss()
	what := fmt.Sprintf("CrossEntropy of %v, %d classes", lengths, v)
	a := device.CrossEntropy{L: columns, V: v, Labels: h.inInts(labels), Mask: h.inInts(mask),
		Lengths: h.inInts(lengths), Scale: scale, Logits: h.in(append(logits, math.NaN()))} // more room than rows
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what+": norm", a.Norm, norm, h.tol.product)
	h.equalTo(what, a.Loss, []float64{want}, h.tol.product*(1+magnitude(norm))*float64(len(rows)))
	h.steady(what, func() { device.Do(h.d, a) })
	a.Loss, a.DLoss = device.View{}, h.in([]float64{1})
	a.Norm = h.in(norm)
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.equalDifferences(what+" gradient", logits, a.DLogits, usual, loss)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	first := h.read(a.DLogits)
	a.Logits, a.DLoss = h.inout(logits), h.in([]float64{-2})
	a.DLogits = a.Logits
	for i := range first {
		first[i] *= -2
	}
	h.run(what+" gradient in place", func() { device.DoGrad(h.d, a) })
	h.equal(what+" gradient in place", a.DLogits, first, 2*h.tol.exact)
	h.release()
}
