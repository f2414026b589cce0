package devicetest

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// The kernels of device/pairs.go by their definitions, pair by pair. Cases cross the sizes at which a device may cut
// its work: many words, more images than lanes, captions of one word, vectors of one element.

const smallest = 1e-8 // of l2 and l1

func sum(n int, f func(i int) float64) (s float64) {
	for i := range n {
		s += f(i)
	}
	return s
}

// norm2 is x/(‖x‖ + ε) with ‖x‖.
func norm2(x []float64) (y []float64, norm float64) {
	norm = math.Sqrt(sum(len(x), func(i int) float64 { return x[i] * x[i] }))
	y = make([]float64, len(x))
	for i, v := range x {
		y[i] = v / (norm + smallest)
	}
	return y, norm
}

func softmaxOf(x []float64) []float64 {
	y := make([]float64, len(x))
	top := x[0]
	for _, v := range x {
		top = math.Max(top, v)
	}
	total := sum(len(x), func(i int) float64 { return math.Exp(x[i] - top) })
	for i, v := range x {
		y[i] = math.Exp(v-top) / total
	}
	return y
}

func affine(w []float64, x []float64, bias []float64) []float64 {
	y := make([]float64, len(bias))
	for o := range y {
		y[o] = bias[o] + sum(len(x), func(i int) float64 { return w[o*len(x)+i] * x[i] })
	}
	return y
}

func inner(a, b []float64) float64 { return sum(len(a), func(i int) float64 { return a[i] * b[i] }) }

// captionsOf returns the first word of each caption, and the total.
func captionsOf(lengths []int32) []int {
	first := []int{0}
	for _, n := range lengths {
		first = append(first, first[len(first)-1]+int(n))
	}
	return first
}

func testPairAttention(h *harness) {
	for _, lengths := range h.lengthCases() {
		for _, s := range [][2]int{{1, 1}, {3, 5}, {20, 36}} {
			for _, over := range []bool{false, true} {
				h.pairAttention(lengths, s[0], s[1], over)
			}
		}
	}
}

func (h *harness) pairAttention(lengths []int32, b, r int, over bool) {
	first, lambda := captionsOf(lengths), 9.0
	t, ld := first[len(lengths)], b*r
	scores := h.normal(t*ld, 1)
	slope := make([]float64, t*ld) // of leaky at the given scores: the loss below is to have no kinks
	for i, v := range scores {
		if slope[i] = 1; v < 0 {
			slope[i] = 0.1
		}
	}
	weights := func() []float64 {
		out, x := make([]float64, t*ld), make([]float64, t*ld)
		for i, v := range scores {
			x[i] = v * slope[i]
		}
		at := func(w, i, k int) int { return w*ld + i*r + k }
		for c := range lengths {
			n, w0 := int(lengths[c]), first[c]
			for i := range b {
				rows, cols, swap := n, r, false
				if over {
					rows, cols, swap = r, n, true
				}
				index := func(row, col int) int {
					if swap {
						return at(w0+col, i, row)
					}
					return at(w0+row, i, col)
				}
				y := make([]float64, rows*cols)
				for col := range cols {
					line := make([]float64, rows)
					for row := range rows {
						line[row] = x[index(row, col)]
					}
					line, _ = norm2(line)
					for row := range rows {
						y[row*cols+col] = lambda * line[row]
					}
				}
				for row := range rows {
					for col, v := range softmaxOf(y[row*cols : (row+1)*cols]) {
						out[index(row, col)] = v
					}
				}
			}
		}
		return out
	}
	what := fmt.Sprintf("PairAttention of %v, %d images of %d regions, over words %v", lengths, b, r, over)
	a := device.PairAttention{B: b, R: r, Lambda: lambda, OverWords: over, Lengths: h.inInts(lengths),
		Scores: h.in(scores)}
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	want := weights()
	h.equal(what, a.Weights, want, 10*h.tol.product)
	h.steady(what, func() { device.Do(h.d, a) })
	pairOf := func(i int) int { return i%ld/r*len(lengths) + captionOf(lengths, 0, i/ld) }
	d := h.gradient(t*ld, pairOf)
	a.Weights, a.DWeights = h.in(want), h.in(d)
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.passedOver(what+": DScores", a.DScores, pairOf)
	// the unit vector of a single value has no gradient, only rounding
	if !over && slices.Min(lengths) > 1 || over && r > 1 {
		h.equalDifferences(what+": DScores", scores, a.DScores, usual, func() float64 { return inner(weights(), d) })
	}
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.release()
}

func testSimilarities(h *harness) {
	for _, lengths := range h.lengthCases() {
		for _, s := range [][4]int{{1, 1, 2, 1}, {3, 2, 5, 3}, {19, 4, 17, 8}, {2, 20, 24, 3}} {
			for _, global := range []bool{false, true} {
				h.similarities(lengths, s[0], s[1], s[2], s[3], global, false)
				h.similarities(lengths, s[0], s[1], s[2], s[3], global, true)
			}
		}
	}
}

func (h *harness) similarities(lengths []int32, b, r, e, s int, global, filtered bool) {
	first := captionsOf(lengths)
	words, captions := first[len(lengths)], len(lengths)
	nodes, rows, size := words+captions, words, b*r*e
	if global {
		rows, size = captions, b*e
	}
	images, values, w, bias := h.normal(size, 1), h.normal(rows*e, 1), h.normal(s*e, 1), h.normal(s, 1)
	weights := h.normal(words*b*r, 1)
	for i, v := range weights {
		weights[i] = math.Abs(v)
	}
	h.hold(weights)
	for i, v := range images {
		images[i] = 0.5 + math.Abs(v) // no context is near 0
	}
	h.hold(images)
	norms := make([]float64, b*rows)
	row := func(i, c, j int) int { return i*nodes + first[c] + c + 1 + j }
	forward := func() []float64 {
		out := make([]float64, b*nodes*s)
		one := func(i, at, node int, u []float64) {
			z := make([]float64, e)
			for k := range z {
				z[k] = (u[k] - values[at*e+k]) * (u[k] - values[at*e+k])
			}
			y, n := norm2(affine(w, z, bias))
			norms[i*rows+at] = n
			copy(out[node*s:], y)
		}
		for i := range b {
			for c := range captions {
				if global {
					one(i, c, row(i, c, -1), images[i*e:(i+1)*e])
					continue
				}
				for j := range int(lengths[c]) {
					u := make([]float64, e)
					for k := range u {
						u[k] = sum(r, func(q int) float64 {
							return weights[(first[c]+j)*b*r+i*r+q] * images[(i*r+q)*e+k]
						})
					}
					u, _ = norm2(u)
					one(i, first[c]+j, row(i, c, j), u)
				}
			}
		}
		return out
	}
	what := fmt.Sprintf("Similarities of %v, %d images of %d regions of %d, %d values, global %v, filter %v", lengths,
		b, r, e, s, global, filtered)
	want := forward()
	before := make([]float64, len(want)) // rows of the other kind are left alone
	for i := range before {
		before[i] = 7
	}
	other := make([]bool, b*nodes)
	for i := range b {
		for c := range captions {
			for j := -1; j < int(lengths[c]); j++ {
				if at := row(i, c, j); (j < 0) != global {
					other[at] = true
					copy(want[at*s:(at+1)*s], before)
				}
			}
		}
	}
	a := device.Similarities{B: b, R: r, E: e, S: s, Global: global, Lengths: h.inInts(lengths), Images: h.in(images),
		Weights: h.in(weights), Rows: h.in(values), W: h.in(w), Bias: h.in(bias), Nodes: h.inout(before)}
	var f filterCase
	if filtered {
		f = h.filterCase(&a, other, want)
	}
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equalTo(what, a.Nodes, want, 20*h.tol.reduced)
	if filtered {
		h.equalTo(what+": logits", a.Filter.Logits, f.logits, 40*h.tol.reduced*magnitude(f.w))
	}
	h.equal(what+": norms", a.Norms, norms, 10*h.tol.reduced)
	h.steady(what, func() { device.Do(h.d, a) })

	pairOf := func(node int) int { return node/nodes*captions + captionOf(lengths, 1, node%nodes) }
	a.Nodes, a.Norms = h.in(want), h.in(norms)
	var d []float64
	if filtered {
		d = h.filterGradient(&a, &f, pairOf, b*captions)
	} else {
		d = h.gradient(len(want), func(i int) int { return pairOf(i / s) })
		a.DNodes = h.in(d)
	}
	loss := func() float64 { return inner(forward(), d) } // the other rows are 0
	a.Bias = device.View{}                                // not read
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	if !global {
		h.passedOver(what+": DWeights", a.DWeights, func(i int) int {
			return i%(b*r)/r*captions + captionOf(lengths, 0, i/(b*r))
		})
	}
	if !h.roundsProducts() && s > 1 { // the norm of a small vector magnifies what rounding does to it
		h.equalDifferences(what+": DImages", images, a.DImages, usual, loss)
		h.equalDifferences(what+": DRows", values, a.DRows, usual, loss)
		h.equalDifferences(what+": DW", w, a.DW, usual, loss)
		h.equalDifferences(what+": DBias", bias, a.DBias, usual, loss)
		if !global {
			h.equalDifferences(what+": DWeights", weights, a.DWeights, usual, loss)
		}
	}
	if filtered {
		h.equal(what+": DW of the filter", a.Filter.DW, f.dW, 20*h.tol.reduced)
	}
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.release()
}

// filterCase is a filter behind similarity vectors.
type filterCase struct {
	w, logits, dW []float64
	want          []float64
	other         []bool // nodes of the other kind
}

// filterCase gives a call a filter; want are the vectors it computes.
func (h *harness) filterCase(a *device.Similarities, other []bool, want []float64) filterCase {
	w, bias := h.normal(a.S, 1), h.normal(1, 1)
	f := filterCase{w: w, want: want, other: other, logits: make([]float64, len(other))}
	for j, other := range other {
		f.logits[j] = 5 // left alone
		if !other {
			f.logits[j] = inner(w, want[j*a.S:][:a.S]) + bias[0]
		}
	}
	before := make([]float64, len(other))
	for j := range before {
		before[j] = 5
	}
	a.Filter = device.Filter{W: h.in(w), Bias: h.in(bias), Logits: h.inout(before)}
	return f
}

// filterGradient draws the factors of a gradient, which it returns; two of three pairs have no gradient of their sum.
func (h *harness) filterGradient(a *device.Similarities, f *filterCase, pairOf func(node int) int,
	pairs int) []float64 {
	s, nodes := a.S, len(f.logits)
	weights, dLogits := h.normal(nodes, 1), h.gradient(nodes, pairOf)
	dSums := h.gradient(pairs*s, func(i int) int { return i / s })
	for i := range dSums {
		if i/s%3 != 0 {
			dSums[i] = 0
		}
	}
	d := make([]float64, nodes*s)
	f.dW = make([]float64, s)
	for i := range d {
		j := i / s
		d[i] = weights[j]*dSums[pairOf(j)*s+i%s] + dLogits[j]*f.w[i%s]
		if !f.other[j] {
			f.dW[i%s] += dLogits[j] * f.want[i]
		}
	}
	a.Filter.Logits = h.in(f.logits)
	a.Filter.Weights, a.Filter.DSums, a.Filter.DLogits = h.in(weights), h.in(dSums), h.in(dLogits)
	return d
}
