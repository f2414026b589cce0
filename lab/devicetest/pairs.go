package devicetest

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
)

// The kernels of device/pairs.go. Cases cross the sizes at which a device may cut its work: many words, more images
// than lanes, captions of one word, vectors of one element.

func testPairAttention(h *harness) {
	for i, lengths := range h.lengthCases() {
		for j, s := range [][2]int{{1, 1}, {3, 5}, {20, 36}} {
			pairAttention(h, lengths, s[0], s[1], (i+j)%2 == 1)
			if j == 1 {
				pairAttention(h, lengths, s[0], s[1], i%2 == 1)
			}
		}
	}
}

func pairAttention(h *harness, lengths []int32, b, r int, over bool) {
	what := fmt.Sprintf("PairAttention of %v, %d images of %d regions, over words %v", lengths, b, r, over)
	n := device.Total(lengths) * b * r
	a := device.PairAttention{B: b, R: r, Lambda: 9, OverWords: over, Lengths: h.inInts(lengths),
		Scores: h.in(h.normal(n, 1))}
	h.check(what, &a, all(10*h.tol.product))
	pairOf := func(i int) int { return i%(b*r)/r*len(lengths) + captionOf(lengths, 0, i/(b*r)) }
	a.DWeights = h.gradient(n, pairOf)
	tol := h.slopes()
	if over && r == 1 || !over && slices.Min(lengths) == 1 {
		tol = bounds{"": {free: true}} // the unit vector of a single value has no gradient, only rounding
	}
	h.back(what, &a, tol)
	h.passedOver(what, a.DScores, pairOf)
	h.release()
}

func testSimilarities(h *harness) {
	for i, lengths := range h.lengthCases() {
		for j, s := range [][4]int{{1, 1, 2, 1}, {3, 2, 5, 3}, {19, 4, 17, 8}, {2, 20, 24, 3}, {1, 2, 5, 300}} {
			for _, global := range []bool{false, true} { // in turn with a filter and without
				similarities(h, lengths, s[0], s[1], s[2], s[3], global, global != ((i+j)%2 == 0))
			}
		}
	}
}

func similarities(h *harness, lengths []int32, b, r, e, s int, global, filtered bool) {
	what := fmt.Sprintf("Similarities of %v, %d images of %d regions of %d, %d values, global %v, filter %v", lengths,
		b, r, e, s, global, filtered)
	words, captions := device.Total(lengths), len(lengths)
	nodes, rows, size := words+captions, pick(global, captions, words), b*e*pick(global, 1, r)
	fill := func(n int, v float64) device.View { // rows of the other kind are left alone
		x := make([]float64, n)
		for i := range x {
			x[i] = v
		}
		return h.inout(x)
	}
	a := device.Similarities{B: b, R: r, E: e, S: s, Global: global, Lengths: h.inInts(lengths),
		Images: h.in(h.positive(size, 0.5, 1)), // no context is near 0
		Rows:   h.in(h.normal(rows*e, 1)), W: h.in(h.normal(s*e, 1)), Bias: h.in(h.normal(s, 1)),
		Nodes: fill(b*nodes*s, 7)}
	if !global {
		a.Weights = h.in(h.positive(words*b*r, 0, 1))
	}
	if s == 1 { // rounding of a sum that cancels would turn the sign
		a.W, a.Bias = h.in(h.positive(e, 0, 1)), h.in(h.positive(1, 0, 1))
	}
	tol := h.tol.reduced
	forward := bounds{"Nodes": {abs: 20 * tol}, "Norms": {rel: 10 * tol}, "Contexts": {free: true}}
	if filtered {
		w := h.normal(s, 1)
		a.Filter = device.Filter{W: h.in(w), Bias: h.in(h.normal(1, 1)), Logits: fill(b*nodes, 5)}
		forward["Filter.Logits"] = bound{abs: 40 * tol * magnitude(w)}
	}
	h.check(what, &a, forward)
	if !global && !math.IsNaN(h.read(a.Contexts)[0]) { // not every device keeps them
		h.equal(what+": contexts", a.Contexts, h.want(a.Contexts), 10*tol)
	}

	pairOf := func(node int) int { return node/nodes*captions + captionOf(lengths, 1, node%nodes) }
	wanted(h, what, &a.Wanted, b*captions, a.Nodes, func(i int) int { return pairOf(i / s) }, func() {
		device.Do(h.d, a)
	})
	back := h.slopes()
	if h.roundsProducts() || s == 1 { // the norm of a small vector magnifies what rounding does to it
		back[""] = bound{free: true}
	}
	back["Filter.DW"] = bound{rel: 20 * tol}
	if filtered { // two of three pairs have no gradient of their sum
		dSums := h.slope(b*captions*s, func(i int) int { return i / s })
		for i := range dSums {
			if i/s%3 != 0 {
				dSums[i] = 0
			}
		}
		weights, dNodes := h.normal(b*nodes, 1), make([]float64, b*nodes*s)
		for i := range dNodes {
			dNodes[i] = weights[i/s] * dSums[pairOf(i/s)*s+i%s]
		}
		h.factors.of = map[string][]float64{"Nodes": dNodes}
		a.Filter.Weights, a.Filter.DSums, a.Filter.DLogits = h.in(weights), h.in(dSums), h.gradient(b*nodes, pairOf)
	} else {
		a.DNodes = h.gradient(b*nodes*s, func(i int) int { return pairOf(i / s) })
	}
	h.back(what, &a, back)
	h.factors = factors{}
	if !global {
		h.passedOver(what+": DWeights", a.DWeights, func(i int) int {
			return i%(b*r)/r*captions + captionOf(lengths, 0, i/(b*r))
		})
	}
	h.release()
}

func testGraphReason(h *harness) {
	modes := []struct{ first, keep bool }{{false, true}, {false, false}, {true, false}}
	for i, lengths := range h.lengthCases() {
		for j, s := range [][2]int{{1, 1}, {3, 5}, {18, 16}} {
			if m := modes[(i+j)%len(modes)]; j < 2 || i >= 4 {
				graphReason(h, lengths, s[0], s[1], m.first, m.keep)
			}
		}
	}
}

func graphReason(h *harness, lengths []int32, b, s int, first, keep bool) {
	what := fmt.Sprintf("GraphReason of %v, %d images, %d values, first %v, Y kept %v", lengths, b, s, first, keep)
	captions, scale := len(lengths), 1/math.Sqrt(float64(s))
	nodes := device.Total(lengths) + captions
	a := device.GraphReason{B: b, S: s, First: first, Lengths: h.inInts(lengths), X: h.in(h.normal(b*nodes*s, 1)),
		M: h.in(h.normal(s*s, scale)), V: h.in(h.normal(s, 1)), W: h.in(h.normal(s*s, scale)),
		Bias: h.in(h.normal(s, 1))}
	if keep {
		a.Y = h.out(b * nodes * s)
	}
	h.check(what, &a, bounds{"Out": {rel: 20 * h.tol.reduced}, "Y": {rel: 10 * h.tol.reduced}})
	pairOf := func(i int) int { return i/s/nodes*captions + captionOf(lengths, 1, i/s%nodes) }
	of, rows := pairOf, nodes
	if first {
		of, rows = func(i int) int { return i / s }, captions
	}
	wanted(h, what, &a.Wanted, b*captions, a.Out, of, func() { device.Do(h.d, a) })
	a.DOut = h.gradient(b*rows*s, of)
	tol := h.slopes()
	if s == 1 && h.roundsProducts() {
		tol = bounds{"": {free: true}}
	}
	h.back(what, &a, tol)
	h.passedOver(what, a.DX, pairOf)
	h.release()
}

// wanted fails where what a kernel writes to y of the pairs that are wanted depends on which those are.
func wanted(h *harness, what string, view *device.View, pairs int, y device.View, pairOf func(i int) int, do func()) {
	want, some := h.read(y), make([]float64, pairs)
	for p := range some {
		some[p] = float64(p % 3 % 2)
	}
	*view = h.in(some)
	h.run(what+", of some pairs", do)
	for i, v := range h.read(y) {
		if some[pairOf(i)] != 0 && v != want[i] {
			h.errorf("%s: element %d is %v where some pairs are wanted, %v where all are", what, i, v, want[i])
			break
		}
	}
	*view = device.View{}
	h.run(what, do)
}

func testFiltrate(h *harness) {
	for _, lengths := range h.lengthCases() {
		for _, s := range [][2]int{{2, 3}, {18, 16}, {2, 300}} {
			for _, train := range []bool{true, false} {
				filtrate(h, lengths, s[0], s[1], train)
			}
		}
	}
	for _, s := range []int{16, 256} {
		filtered(h, s)
	}
}

func filtrate(h *harness, lengths []int32, b, s int, train bool) {
	what := fmt.Sprintf("Filtrate of %v, %d images, %d values, training %v", lengths, b, s, train)
	nodes := device.Total(lengths) + len(lengths)
	a := device.Filtrate{B: b, S: s, Train: train, Eps: 1e-5, Momentum: 0.1, Lengths: h.inInts(lengths),
		X: h.in(h.normal(b*nodes*s, 1)), Logits: h.in(h.normal(b*nodes, math.Sqrt(float64(s)))),
		Gamma: h.in([]float64{1.3}), Beta: h.in([]float64{-0.4}), RunningMean: h.inout([]float64{0.3}),
		RunningVar: h.inout([]float64{1.7})}
	h.check(what, &a, bounds{"": {rel: 30 * h.tol.product}, "RunningMean": {abs: 10 * h.tol.product},
		"RunningVar": {abs: 30 * h.tol.product}})
	a.DOut = h.gradient(b*len(lengths)*s, func(i int) int { return i / s })
	h.factors.made = func() map[string][]float64 {
		weights, dSums, x := h.want(a.Weights), h.want(a.DSums), make([]float64, b*nodes*s)
		for i := range x {
			node := i / s
			x[i] = weights[node] * dSums[(node/nodes*len(lengths)+captionOf(lengths, 1, node%nodes))*s+i%s]
		}
		return map[string][]float64{"X": x}
	}
	tol := h.slopes()
	if h.plainSums { // in training the terms cancel
		tol["DBias"] = bound{free: true}
	}
	h.back(what, &a, tol)
	if h.plainSums {
		terms := 0.0
		for _, v := range h.want(a.DLogits)[:b*nodes] {
			terms += math.Abs(v)
		}
		want := h.want(a.DBias)
		h.equalTo(what+": DBias", a.DBias, want, h.tol.deriv*(math.Abs(want[0])+usual)+float64(b*nodes)/(1<<24)*terms)
	}
	h.factors = factors{}
	h.passedOver(what, a.DSums, func(i int) int { return i / s })
	h.release()
}

// filtered compares a filtration and the similarities before it in one call with the same device's own kernels for
// each, whose conformance is tested by testSimilarities and testFiltrate.
func filtered(h *harness, s int) {
	const b, r, e = 3, 5, 16
	lengths := []int32{4, 2, 1}
	words, captions := 7, len(lengths)
	nodes := words + captions
	x := h.out(b * nodes * s)
	local := device.Similarities{B: b, R: r, E: e, S: s, Lengths: h.inInts(lengths), Images: h.in(h.normal(b*r*e, 1)),
		Weights: h.in(h.normal(words*b*r, 1)), Rows: h.in(h.normal(words*e, 1)), W: h.in(h.normal(s*e, 1)),
		Bias: h.in(h.normal(s, 1)), Nodes: x, Norms: h.out(b * words), Contexts: h.out(b * words),
		Filter: device.Filter{W: h.in(h.normal(s, 1)), Bias: h.in(h.normal(1, 1)), Logits: h.out(b * nodes)}}
	global := local
	global.Global, global.Images, global.Rows = true, h.in(h.normal(b*e, 1)), h.in(h.normal(captions*e, 1))
	global.Norms, global.W, global.Bias = h.out(b*captions), h.in(h.normal(s*e, 1)), h.in(h.normal(s, 1))
	a := device.Filtrate{B: b, S: s, Eps: 1e-5, Lengths: local.Lengths, X: x, Logits: local.Filter.Logits,
		Gamma: h.in([]float64{1.3}), Beta: h.in([]float64{-0.4}), RunningMean: h.in([]float64{0.3}),
		RunningVar: h.in([]float64{1.7})}
	h.outputs(&a)
	what := fmt.Sprintf("FiltrateSimilarities of %d values", s)
	h.run(what, func() { device.Do(h.d, device.FiltrateSimilarities{Words: local, Captions: global, Filtrate: a}) })
	got := h.read(a.Out)
	device.Do(h.d, local)
	device.Do(h.d, global)
	device.Do(h.d, a)
	h.equal(what, h.in(got), h.read(a.Out), h.tol.reduced)
	h.release()
}

// With the hardest negatives alone in the loss most pairs of an image and a caption have no gradient, and a device may
// pass over them. What it computes is the same; these cases have a few pairs with a gradient, alone and side by side,
// and some whose gradient is in part 0.
func testFewPairs(h *harness) {
	lengths := []int32{3, 1, 4, 2, 6, 1, 2}
	for i, without := range []func(pair int) bool{
		func(p int) bool { return p%len(lengths) == 0 || p%5 > 1 }, // one caption with none at all
		func(p int) bool { return p%9 == 4 },                       // nearly all have one
		func(p int) bool { return p/len(lengths) != 1 },            // one image has all
		func(int) bool { return true },
	} {
		h.without = without
		for _, first := range []bool{false, true} {
			filtrate(h, lengths, 4, 3, first)
			similarities(h, lengths, 17, 2, 5, 3, first, first != (i%2 == 0))
		}
		graphReason(h, lengths, 18, 4, i%2 == 0, false)
		pairAttention(h, lengths, 17, 36, i%2 == 0)
		graphReason(h, lengths, 3, 4, false, true)
		blockMatch(h, 2, matchSizes{pairSizes{10, 36, lengths}, 8, 2})
		testScaleBlocks(h)
	}
	h.without = nil
}
