package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

func testGraphReason(h *harness) {
	modes := []struct{ first, keep bool }{{false, true}, {false, false}, {true, false}}
	for i, lengths := range h.lengthCases() {
		for _, m := range modes {
			h.graphReason(lengths, 1, 1, m.first, m.keep)
			h.graphReason(lengths, 3, 5, m.first, m.keep)
		}
		m := modes[i%len(modes)]
		h.graphReason(lengths, 18, 16, m.first, m.keep)
	}
}

func (h *harness) graphReason(lengths []int32, b, s int, first, keep bool) {
	start := captionsOf(lengths)
	captions := len(lengths)
	nodes := start[captions] + captions
	results := b * nodes
	if first {
		results = b * captions
	}
	scale := 1 / math.Sqrt(float64(s))
	x, m, v, w, bias := h.normal(b*nodes*s, 1), h.normal(s*s, scale), h.normal(s, 1), h.normal(s*s, scale),
		h.normal(s, 1)
	const unknown = -1
	live := make([]float64, results*s) // the slopes of ReLU at the given values: the loss below is to have no kinks
	for i := range live {
		live[i] = unknown
	}
	forward := func() (out, ys []float64) {
		out, ys = make([]float64, results*s), make([]float64, b*nodes*s)
		for i := range b {
			for c := range captions {
				at, n := i*nodes+start[c]+c, int(lengths[c])+1
				node := func(j int) []float64 { return x[(at+j)*s : (at+j+1)*s] }
				for j := range n {
					y := append([]float64(nil), v...)
					for k := range y {
						y[k] += sum(s, func(q int) float64 { return node(j)[q] * m[q*s+k] })
					}
					copy(ys[(at+j)*s:], y)
					if first && j > 0 {
						continue
					}
					logits := make([]float64, n)
					for q := range n {
						logits[q] = inner(y, node(q))
					}
					a, e := softmaxOf(logits), make([]float64, s)
					for k := range e {
						e[k] = sum(n, func(q int) float64 { return a[q] * node(q)[k] })
					}
					to := at + j
					if first {
						to = i*captions + c
					}
					for k, o := range affine(w, e, bias) {
						if live[to*s+k] == unknown {
							live[to*s+k] = math.Max(0, math.Copysign(1, o))
						}
						out[to*s+k] = o * live[to*s+k]
					}
				}
			}
		}
		return out, ys
	}
	what := fmt.Sprintf("GraphReason of %v, %d images, %d values, first %v, Y kept %v", lengths, b, s, first, keep)
	want, y := forward()
	a := device.GraphReason{B: b, S: s, First: first, Lengths: h.inInts(lengths), X: h.in(x), M: h.in(m), V: h.in(v),
		W: h.in(w), Bias: h.in(bias)}
	if keep {
		a.Y = h.out(len(y))
	}
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what, a.Out, want, 20*h.tol.reduced)
	if keep {
		h.equal(what+": Y", a.Y, y, 10*h.tol.reduced)
	}
	h.steady(what, func() { device.Do(h.d, a) })
	if keep {
		a.Y = h.in(y)
	}

	pairOf := func(row int) int { // of a row of X
		return row/nodes*captions + captionOf(lengths, 1, row%nodes)
	}
	d := h.gradient(len(want), func(i int) int {
		if first {
			return i / s
		}
		return pairOf(i / s)
	})
	loss := func() float64 { out, _ := forward(); return inner(out, d) }
	a.Out, a.DOut = h.in(want), h.in(d)
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.passedOver(what+": DX", a.DX, func(i int) int { return pairOf(i / s) })
	if s > 1 || !h.roundsProducts() {
		h.equalDifferences(what+": DX", x, a.DX, usual, loss)
		h.equalDifferences(what+": DM", m, a.DM, usual, loss)
		h.equalDifferences(what+": DV", v, a.DV, usual, loss)
		h.equalDifferences(what+": DW", w, a.DW, usual, loss)
		h.equalDifferences(what+": DBias", bias, a.DBias, usual, loss)
	}
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.release()
}

func testFiltrate(h *harness) {
	for _, lengths := range h.lengthCases() {
		for _, s := range [][2]int{{2, 3}, {18, 16}} {
			for _, train := range []bool{true, false} {
				h.filtrate(lengths, s[0], s[1], train)
			}
		}
	}
	for _, s := range []int{16, 256} {
		h.filtered(s)
	}
}

func (h *harness) filtrate(lengths []int32, b, s int, train bool) {
	start := captionsOf(lengths)
	captions := len(lengths)
	nodes := start[captions] + captions
	x, w, bias, gamma, beta := h.normal(b*nodes*s, 1), h.normal(s, 1), h.normal(1, 1), h.hold([]float64{1.3}),
		h.hold([]float64{-0.4})
	mean0, var0 := h.hold([]float64{0.3}), h.hold([]float64{1.7})
	const eps, momentum = 1e-5, 0.1
	var running [2]float64
	forward := func() []float64 {
		running = [2]float64{mean0[0], var0[0]}
		out := make([]float64, b*captions*s)
		for c := range captions {
			n := int(lengths[c]) + 1
			at := func(i, j int) int { return i*nodes + start[c] + c + j }
			z := make([]float64, b*n)
			for k := range z {
				z[k] = bias[0] + inner(w, x[at(k/n, k%n)*s:][:s])
			}
			mean, variance := mean0[0], var0[0]
			if train {
				mean = sum(len(z), func(k int) float64 { return z[k] }) / float64(len(z))
				variance = sum(len(z), func(k int) float64 { return (z[k] - mean) * (z[k] - mean) }) / float64(len(z))
				running[0] = 0.9*running[0] + 0.1*mean
				running[1] = 0.9*running[1] + 0.1*variance*float64(len(z))/float64(len(z)-1)
			}
			for i := range b {
				a := make([]float64, n)
				for j := range a {
					a[j] = 1 / (1 + math.Exp(-(gamma[0]*(z[i*n+j]-mean)/math.Sqrt(variance+eps) + beta[0])))
				}
				total := sum(n, func(j int) float64 { return a[j] })
				r := make([]float64, s)
				for k := range r {
					r[k] = sum(n, func(j int) float64 { return a[j] / (total + smallest) * x[at(i, j)*s+k] })
				}
				r, _ = norm2(r)
				copy(out[(i*captions+c)*s:], r)
			}
		}
		return out
	}
	what := fmt.Sprintf("Filtrate of %v, %d images, %d values, training %v", lengths, b, s, train)
	want := forward()
	logits := make([]float64, b*nodes)
	for j := range logits {
		logits[j] = bias[0] + inner(w, x[j*s:][:s])
	}
	a := device.Filtrate{B: b, S: s, Train: train, Eps: eps, Momentum: momentum, Lengths: h.inInts(lengths), X: h.in(x),
		Gamma: h.in(gamma), Beta: h.in(beta), RunningMean: h.inout(mean0), RunningVar: h.inout(var0),
		Logits: h.in(logits)}
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what, a.Out, want, 30*h.tol.product)
	h.equalTo(what+": running mean", a.RunningMean, running[:1], 10*h.tol.product)
	h.equalTo(what+": running variance", a.RunningVar, running[1:], 30*h.tol.product)

	d := h.gradient(len(want), func(i int) int { return i / s })
	loss := func() float64 { return inner(forward(), d) }
	a.DOut = h.in(d)
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.passedOver(what+": DSums", a.DSums, func(i int) int { return i / s })
	dX, dW := make([]float64, len(x)), make([]float64, s)
	weights, dSums, dLogits := h.read(a.Weights), h.read(a.DSums), h.read(a.DLogits)
	for i := range x {
		node := i / s
		pair := node/nodes*captions + captionOf(lengths, 1, node%nodes)
		dX[i] = weights[node]*dSums[pair*s+i%s] + dLogits[node]*w[i%s]
		dW[i%s] += dLogits[node] * x[i]
	}
	h.equalDifferences(what+": DX", x, h.in(dX), usual, loss)
	h.equalDifferences(what+": DW", w, h.in(dW), usual, loss)
	h.equalDifferences(what+": DBias", bias, a.DBias, usual, loss)
	h.equalDifferences(what+": DGamma", gamma, a.DGamma, usual, loss)
	h.equalDifferences(what+": DBeta", beta, a.DBeta, usual, loss)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.steady(what, func() { device.Do(h.d, a) })
	h.release()
}
