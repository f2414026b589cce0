package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/lab/reference"
)

// Together is the family of what the ranks of a job compute together. It needs the devices of all ranks
// (MeasureTogether).
const Together = "Together"

// testTogether: what several ranks compute is what one device computes of the batch of all. Every rank draws that
// batch, computes its reference, and compares its own part. It stops at its first mistake: the others would wait.
func testTogether(h *harness) {
	rank, ranks := device.RankOf(h.d)
	for _, shard := range []device.Shard{{Items: 7, Width: 3}, {Items: ranks, Width: 5}, {Items: 9, Width: 5000},
		{Width: 2, Lengths: h.inInts([]int32{5, 4, 4, 0, 1})}, {Width: 3000, Lengths: h.inInts([]int32{9, 7, 1, 1, 1})},
		{Width: 2, Lengths: device.Ints{Host: []int32{5, 4, 4, 0, 1}}}} {
		shard.Rank, shard.Ranks = rank, ranks
		if err := Collectives(h.d, shard); err != nil && !h.blind {
			h.t.Fatal(err)
		}
	}
	h.release()
	gatheredOperand(h)
	for _, s := range []struct {
		c, inner int
		counts   []int32 // rows of the items, in pairs that the ranks take in turn
		pad      bool
	}{
		{1, 1, []int32{1, 2, 1}, true}, {33, 1, []int32{3, 1, 5, 2, 4}, true}, {5, 1, []int32{2, 2, 2, 2}, false},
		{300, 1, []int32{40, 31, 7, 36}, true}, {3, 17, []int32{1, 2, 3}, false}, {36, 50, []int32{4, 5, 1}, false},
	} {
		batchNormOfRanks(h, s.c, s.inner, s.counts, s.pad)
	}
	for _, lengths := range [][]int32{{4, 3, 1}, {1}, {12, 9, 9, 2, 1, 1}} {
		for _, b := range []int{3, 5, 18} {
			filtrateOfRanks(h, lengths, b, 3)
		}
	}
}

// part is the values of this rank of the values of a batch: counts rows of width values of each item, dealt in turn.
func part(h *harness, x []float64, counts []int32, width int) (own []float64) {
	rank, ranks := device.RankOf(h.d)
	at := 0
	for i, n := range counts {
		if i%ranks == rank {
			own = append(own, x[at:at+int(n)*width]...)
		}
		at += int(n) * width
	}
	return own
}

// whole is a harness of the reference, for the batch of all ranks: the values that it draws are the same on all.
func whole(h *harness) *harness {
	w := startHarness(h.t, reference.New(), Together, 0)
	w.short = true
	return w
}

// partly compares a result with the part of this rank.
func partly(h *harness, what string, v device.View, want []float64, b bound) {
	h.t.Helper()
	got := h.read(v)
	if err := h.d.Sync(); err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	if before := h.failures; !h.blind {
		if h.within(what, got, want, b); h.failures > before {
			h.t.Fatal("the ranks are not tested further")
		}
	}
}

// summed compares what the ranks have parts of with their sum.
func summed(h *harness, what string, v device.View, want []float64, b bound) {
	h.t.Helper()
	device.Do(h.d, device.AllReduce{X: v})
	partly(h, what, v, want, b)
}

// gatheredOperand: what ranks gather for products is what these read, in whatever precision.
func gatheredOperand(h *harness) {
	rank, ranks := device.RankOf(h.d)
	w := whole(h)
	const m, k, n = 24, 32, 40
	for _, items := range []int{k, ranks} { // rows that are dealt in turn, and pieces in the order of the ranks
		x, y := h.hold(w.normal(m*k, 1)), h.hold(w.normal(k*n, 1))
		if k%items != 0 {
			continue
		}
		counts := make([]int32, items)
		for i := range counts {
			counts[i] = 1
		}
		want := make([]float64, m*n)
		for i := range want {
			for j := range k {
				want[i] += x[i/n*k+j] * y[j*n+i%n]
			}
		}
		gathered := h.out(k * n)
		device.Do(h.d,
			device.AllGather{Shard: device.Shard{Rank: rank, Ranks: ranks, Items: items, Width: k / items * n},
				Operand: m, X: h.in(part(h, y, counts, k/items*n)), Y: gathered})
		product := h.out(m * n)
		device.Do(h.d, device.Gemm{M: m, N: n, K: k, Alpha: 1, A: h.in(x), B: gathered, C: product})
		partly(h, fmt.Sprintf("product of %d rows with what was gathered of %d items", m, items), product, want,
			bound{rel: h.tol.reduced})
	}
	h.release()
}

func batchNormOfRanks(h *harness, c, inner int, counts []int32, pad bool) {
	rank, ranks := device.RankOf(h.d)
	w, rows, width := whole(h), device.Total(counts), c*inner
	what := fmt.Sprintf("BatchNorm of %v rows of %d channels of %d values, padding rows %t", counts, c, inner, pad)
	a := device.BatchNorm{Outer: rows, C: c, Inner: inner, Eps: 1e-5, Momentum: 0.1, Train: true,
		X: w.in(h.hold(w.normal(rows*width, 1))), Weight: w.in(h.hold(w.normal(c, 1))),
		Bias: w.in(h.hold(w.normal(c, 1))), RunningMean: w.inout(h.hold(w.normal(c, 1))),
		RunningVar: w.inout(h.hold(w.positive(c, 0.1, 1)))}
	most := int32(0)
	for _, n := range counts {
		most = max(most, n)
	}
	own := device.BatchNorm{C: c, Inner: inner, Eps: a.Eps, Momentum: a.Momentum, Train: true,
		X:      h.in(part(h, w.read(a.X), counts, width)),
		Weight: h.in(w.read(a.Weight)), Bias: h.in(w.read(a.Bias)), RunningMean: h.inout(w.read(a.RunningMean)),
		RunningVar: h.inout(w.read(a.RunningVar))}
	if own.Outer = own.X.N / width; pad {
		mine := []int32{}
		for i, n := range counts {
			if i%ranks == rank {
				mine = append(mine, n)
			}
		}
		a.Pads, a.Pad = len(counts)*int(most)-rows, w.in(h.hold(w.normal(c, 1)))
		a.Counts = w.inInts(counts)
		own.Counts, own.Pad = h.inInts(mine), h.in(w.read(a.Pad))
		for _, n := range mine {
			longest := int32(0)
			for _, m := range mine {
				longest = max(longest, m)
			}
			own.Pads += int(longest - n)
		}
	}
	w.outputs(&a)
	device.Do(w.d, a)
	h.outputs(&own)
	device.Do(h.d, own)
	rounding := 8 * h.tol.exact * max(1, magnitude(w.read(a.InvStd)))
	partly(h, what+": Y", own.Y, part(h, w.read(a.Y), counts, width), bound{rel: rounding, abs: rounding})
	for _, v := range [][2]device.View{{own.Mean, a.Mean}, {own.InvStd, a.InvStd}, {own.RunningMean, a.RunningMean},
		{own.RunningVar, a.RunningVar}} {
		partly(h, what+": statistics", v[0], w.read(v[1]), bound{rel: rounding + h.tol.product, abs: rounding})
	}
	a.Grad, own.Grad = true, true
	dy := h.hold(w.normal(rows*width, 1))
	a.DY, own.DY = w.in(dy), h.in(part(h, dy, counts, width))
	a.DX, a.DWeight, a.DBias = w.out(rows*width), w.out(c), w.out(c)
	own.DX, own.DWeight, own.DBias = h.out(own.X.N), h.out(c), h.out(c)
	if pad {
		a.DPad, own.DPad = w.out(c), h.out(c)
	}
	device.Do(w.d, a)
	device.Do(h.d, own)
	n := math.Sqrt(float64(rows * inner))
	scale := 4 * rounding * (1 + magnitude(w.read(a.Weight))) * max(1, magnitude(w.read(a.InvStd)))
	partly(h, what+": DX", own.DX, part(h, w.read(a.DX), counts, width), bound{abs: scale, rel: h.tol.product})
	summed(h, what+": DWeight", own.DWeight, w.read(a.DWeight), bound{abs: 2 * rounding * n, rel: 2 * rounding})
	summed(h, what+": DBias", own.DBias, w.read(a.DBias), bound{abs: h.tol.product * n, rel: h.tol.product})
	if pad {
		summed(h, what+": DPad", own.DPad, w.read(a.DPad), bound{abs: scale, rel: scale})
	}
	h.release()
}

func filtrateOfRanks(h *harness, lengths []int32, b, s int) {
	rank, ranks := device.RankOf(h.d)
	w, captions := whole(h), len(lengths)
	nodes := device.Total(lengths) + captions
	what := fmt.Sprintf("Filtrate of %v, %d images, %d values", lengths, b, s)
	images := make([]int32, b)
	for i := range images {
		images[i] = 1
	}
	a := device.Filtrate{B: b, S: s, Train: true, Eps: 1e-5, Momentum: 0.1, Lengths: w.inInts(lengths),
		X:      w.in(h.hold(w.normal(b*nodes*s, 1))),
		Logits: w.in(h.hold(w.normal(b*nodes, 1.5))), Gamma: w.in(h.hold([]float64{1.3})),
		Beta:        w.in(h.hold([]float64{-0.4})),
		RunningMean: w.inout(h.hold([]float64{0.3})), RunningVar: w.inout(h.hold([]float64{1.7}))}
	own := device.Filtrate{B: (b - rank + ranks - 1) / ranks, S: s, Train: true, Eps: a.Eps, Momentum: a.Momentum,
		Lengths: h.inInts(lengths), X: h.in(part(h, w.read(a.X), images, nodes*s)),
		Logits: h.in(part(h, w.read(a.Logits), images, nodes)), Gamma: h.in([]float64{1.3}),
		Beta: h.in([]float64{-0.4}), RunningMean: h.inout([]float64{0.3}), RunningVar: h.inout([]float64{1.7})}
	w.outputs(&a)
	device.Do(w.d, a)
	h.outputs(&own)
	device.Do(h.d, own)
	tol := bound{rel: 30 * h.tol.product, abs: 30 * h.tol.product}
	partly(h, what+": Out", own.Out, part(h, w.read(a.Out), images, captions*s), tol)
	partly(h, what+": Weights", own.Weights, part(h, w.read(a.Weights), images, nodes), tol)
	for _, v := range [][2]device.View{{own.Mean, a.Mean}, {own.InvStd, a.InvStd}, {own.RunningMean, a.RunningMean},
		{own.RunningVar, a.RunningVar}} {
		partly(h, what+": statistics", v[0], w.read(v[1]), tol)
	}
	dOut := h.hold(w.normal(b*captions*s, 1))
	a.Grad, own.Grad, a.DOut, own.DOut = true, true, w.in(dOut), h.in(part(h, dOut, images, captions*s))
	w.outputs(&a)
	device.Do(w.d, a)
	h.outputs(&own)
	device.Do(h.d, own)
	slope := bound{rel: h.tol.deriv, abs: h.tol.deriv * usual * math.Sqrt(float64(b*nodes))}
	partly(h, what+": DSums", own.DSums, part(h, w.read(a.DSums), images, captions*s), slope)
	partly(h, what+": DLogits", own.DLogits, part(h, w.read(a.DLogits), images, nodes), slope)
	for _, v := range [][2]device.View{{own.DGamma, a.DGamma}, {own.DBeta, a.DBeta}, {own.DBias, a.DBias}} {
		summed(h, what+": gradients of one value", v[0], w.read(v[1]), slope)
	}
	h.release()
}
