package devicetest

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
)

// ofTwo checks a kernel of two arguments: with its own result, and with one argument as the result.
func ofTwo(h *harness, what string, n int, kernel func(dst, a, b device.View) device.Kernel) {
	x, y := h.normal(n, 1), h.normal(n, 1)
	a, b := h.in(x), h.in(y)
	h.check(what, kernel(h.out(n), a, b), all(h.tol.exact))
	into := h.inout(x)
	h.check(what+" in place", kernel(into, into, b), all(h.tol.exact))
	into = h.inout(y)
	h.check(what+" in place", kernel(into, a, into), all(h.tol.exact))
	h.release()
}

func testElementwise(h *harness) {
	for _, n := range lengths1 {
		ofTwo(h, fmt.Sprintf("Add of %d", n), n, func(dst, a, b device.View) device.Kernel {
			return &device.Add{Dst: dst, A: a, B: b}
		})
		x, factor := h.normal(n, 1), h.in(h.normal(1, 1))
		h.check(fmt.Sprintf("Scale of %d", n), &device.Scale{Dst: h.out(n), X: h.in(x), Factor: factor},
			all(h.tol.exact))
		both := h.inout(x)
		h.check(fmt.Sprintf("Scale of %d in place", n), &device.Scale{Dst: both, X: both, Factor: factor},
			all(h.tol.exact))
		h.release()
		for f := device.ReLU; f <= device.GELU; f++ {
			activation(h, f, n)
		}
	}
}

func activation(h *harness, f device.Activation, n int) {
	what, tol := fmt.Sprintf("function %d of %d", f, n), all(h.tol.exact)
	x, dy := h.normal(n, 3), h.normal(n, 1)
	if !h.definition { // the hard places, where not all functions have a slope
		copy(x, []float64{0, math.Copysign(0, -1), 1e-30, -1e-30, 30, -30, 200, -200, 0.625, -0.625, 1, -1})
	}
	h.hold(x)
	a := device.Activate{F: f, Y: h.out(n), X: h.in(x)}
	h.bothWays(what, &a, tol, tol)
	a.DX = h.inout(dy)
	a.DY = a.DX
	h.check(what+" gradient in place", &a, tol)
	both := h.inout(x)
	h.check(what+" in place", &device.Activate{F: f, Y: both, X: both}, tol)
	x[n/2] = math.NaN() // must stay visible
	h.check(what+" with NaN", &device.Activate{F: f, Y: h.out(n), X: h.in(x)}, tol)
	h.release()
}

func testCombine(h *harness) {
	for _, n := range lengths1 {
		what := fmt.Sprintf("Combine of %d", n)
		ofTwo(h, what, n, func(dst, a, b device.View) device.Kernel {
			return &device.Combine{Dst: dst, A: a, B: b, Alpha: 0.5, Beta: -3}
		})
		h.check(what+", one", &device.Combine{Dst: h.out(n), A: h.in(h.normal(n, 1)), Alpha: 0.5, Beta: -3},
			all(h.tol.exact))
		h.release()
	}
}

// mappings are arguments that the functions of device.Function are defined for.
var mappings = map[device.Function]struct {
	c      float64
	values []float64 // the hard ones
	draw   func(x float64) float64
}{
	device.LeakyReLU:  {0.1, []float64{0, 1e-30, -1e-30, -3}, func(x float64) float64 { return x }},
	device.Exp:        {0, []float64{0, 20, -80}, func(x float64) float64 { return x }},
	device.Log:        {0, []float64{1, 1e-6, 1e6}, math.Exp},
	device.Sqrt:       {0, []float64{0, 1, 1e4}, func(x float64) float64 { return 0.1 + x*x }},
	device.Reciprocal: {0.5, []float64{0, 1, 100}, func(x float64) float64 { return x * x }},
	device.Inverse:    {0.5, []float64{0, 0.5, 0.25, 100}, func(x float64) float64 { return x * x }},
}

func testPrimitives(h *harness) {
	for _, n := range lengths1 {
		ofTwo(h, fmt.Sprintf("Multiply of %d", n), n, func(dst, a, b device.View) device.Kernel {
			return &device.Multiply{Dst: dst, A: a, B: b}
		})
		for f := device.Function(0); f.Valid(); f++ {
			m, what := mappings[f], fmt.Sprintf("function %d of %d", f, n)
			x := h.normal(n, 1)
			for i := range x {
				x[i] = m.draw(x[i])
			}
			if !h.definition {
				copy(x, m.values)
			}
			h.hold(x)
			a := device.Map{F: f, C: m.c, X: h.in(x)}
			h.bothWays(what, &a, all(h.tol.exact), all(4*h.tol.exact))
			a.DX = h.inout(h.normal(n, 1))
			a.DY = a.DX
			h.check(what+" gradient in place", &a, all(4*h.tol.exact))
			both := h.inout(x)
			h.check(what+" in place", &device.Map{F: f, C: m.c, X: both, Y: both}, all(h.tol.exact))
			h.release()
		}
	}
	for _, d := range []int{1, 5, 36, 64, 300} {
		for _, n := range []int{1, 7, 129} {
			reduce(h, device.Reduce{N: n, D: d}, n)
		}
		for _, counts := range h.lengthCases() {
			reduce(h, device.Reduce{D: d, Counts: device.Ints{Host: counts}}, device.Total(counts))
			segmentProducts(h, counts, d)
		}
	}
	if long := []int32{1300, 1, 7, 513}; !h.definition { // more rows than a GPU adds up at once
		for _, d := range []int{1, 3, 40} {
			reduce(h, device.Reduce{D: d, Counts: device.Ints{Host: long}}, device.Total(long))
		}
	}
}

// reduce tests reductions of rows.
func reduce(h *harness, a device.Reduce, rows int) {
	what := fmt.Sprintf("reduction of %d rows or %v of %d", a.N, a.Counts.Host, a.D)
	x := h.normal(rows*a.D, 1)
	for i := range x { // some ties
		x[i] = math.Round(4*x[i]) / 4
	}
	for _, a.Max = range []bool{false, true} {
		b := a
		if b.Counts.Host != nil {
			b.Counts = h.inInts(a.Counts.Host)
		}
		b.X = h.in(x)
		h.transpose(what, &b, bounds{"Y": {rel: h.tol.product * float64(pick(a.Max, 0, 1))}}, "Y", "X")
		x := slices.Clone(x)
		x[h.rng.IntN(len(x))] = math.NaN() // must stay visible
		b.Grad, b.X, b.Y, b.Index = false, h.in(x), device.View{}, device.View{}
		h.check(what+" with NaN", &b, bounds{"Y": {rel: h.tol.product * float64(pick(a.Max, 0, 1))}})
		h.release()
	}
}

func segmentProducts(h *harness, counts []int32, d int) {
	rows, longest := device.Total(counts), 1+int(max(2, slices.Max(counts)))
	a := device.SegmentProducts{D: d, Longest: longest, Counts: h.inInts(counts), A: h.in(h.normal(rows*d, 1)),
		B: h.in(h.normal(rows*d, 1)), G: h.inout(h.normal(rows*longest, 1))}
	h.check(fmt.Sprintf("SegmentProducts of %v rows of %d", counts, d), &a, all(h.tol.product))
	a.G = h.in(h.normal(rows*longest, 1))
	for _, form := range []device.SegmentForm{device.SegmentApply, device.SegmentApplyT} {
		a.Form, a.B = form, h.out(rows*d)
		h.check(fmt.Sprintf("SegmentProducts of %v rows of %d, form %d", counts, d, form), &a, all(h.tol.product))
	}
	h.release()
}

func testColumnSum(h *harness) {
	for _, s := range [][2]int{{1, 1}, {1, 9}, {0, 4}, {7, 1}, {33, 16}, {5, 511}, {300, 1537}, {1970, 40}, {700, 129},
		{17, 8200}} {
		h.check(fmt.Sprintf("ColumnSum %v", s), &device.ColumnSum{X: h.in(h.normal(s[0]*s[1], 1)), Rows: s[0],
			Columns: s[1]}, all(h.tol.product))
		h.release()
	}
}

func testL2Norm(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 1}, {7, 16, 1}, {128, 1024, 1}, {3, 1030, 1}, {4, 6, 2}, {2, 36, 3},
		{3, 4, 50},
		{5, 9, 2048}, {64, 7, 33}} {
		for _, eps := range []float64{0, 1e-8, 0.5} {
			norm(h, device.L2Norm{Outer: s[0], N: s[1], Inner: s[2], Eps: eps})
		}
	}
}

func norm(h *harness, a device.L2Norm) {
	what := fmt.Sprintf("L2Norm [%d, %d, %d] eps %v", a.Outer, a.N, a.Inner, a.Eps)
	size := a.Outer * a.N * a.Inner
	x, dy := h.normal(size, 2), h.normal(size, 1)
	if a.Outer > 1 && !h.definition { // the vector of item 1, column 0 is zero
		for k := range a.N {
			x[(a.N+k)*a.Inner] = 0
		}
	}
	a.X = h.in(x)
	h.check(what, &a, all(h.tol.exact))
	var terms float64 // magnitude of the two terms of the gradient, which may cancel
	for i, r := range h.want(a.Norm) {
		for k := range a.N {
			if at := (i/a.Inner*a.N+k)*a.Inner + i%a.Inner; r+a.Eps > 0 {
				terms = max(terms, math.Abs(dy[at])/(r+a.Eps))
			}
		}
	}
	a.DY = h.in(dy)
	h.back(what, &a, bounds{"": {abs: 4 * h.tol.exact * terms}})
	h.release()
}

func testOrder(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {2, 3, 5}, {17, 9, 33}, {5, 40, 1024}} {
		b, c, n := s[0], s[1], s[2]
		images, captions := h.normal(b*n, 1), h.normal(c*n, 1)
		if b > 1 { // image 1 is above caption 0 everywhere: score 0, no gradient
			for k := range n {
				images[n+k] = captions[k] + 1
			}
			h.hold(images)
		}
		a := device.OrderScores{B: b, C: c, D: n, Images: h.in(images), Captions: h.in(captions)}
		h.bothWays(fmt.Sprintf("OrderScores %v", s), &a, all(h.tol.exact), all(h.tol.product))
		h.release()
	}
}

func testWords(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, s := range [][2]int{{3, 1}, {50, 37}, {200, 300}} {
			v, d := s[0], s[1]
			columns := int(lengths[0]) + n%3
			words := repeat(len(lengths)*columns, guardInt) // padding is never read
			for _, r := range packed(lengths) {
				words[r[0]*columns+r[1]] = int32(min(h.rng.IntN(v), h.rng.IntN(v))) // frequent and rare words
			}
			a := device.GatherWords{Words: h.inInts(words), Lengths: h.inInts(lengths), L: columns, V: v, D: d,
				Table: h.in(h.normal(v*d, 1))}
			h.transpose(fmt.Sprintf("words of %v, table [%d, %d]", lengths, v, d), &a,
				bounds{"Table": {rel: h.tol.product}}, "Out", "Table")
			h.release()
		}
	}
}

func testDropout(h *harness) {
	key := philox.NewKey(3, "dropout")
	for _, s := range [][2]int{{1, 1}, {3, 1}, {17, 4}, {1000, 3}, {5, 8}, {11, 1030}, {40, 1000}} {
		for _, rate := range []float64{0.2, 0.5} {
			rows, width := s[0], s[1]
			what, x := fmt.Sprintf("Dropout %v of %d rows of %d", rate, rows, width), h.normal(rows*width, 1)
			a := device.Dropout{DropoutParams: h.drops(rate, key, rows), Width: width, X: h.in(x),
				Y: h.out(rows * width)}
			h.check(what, &a, all(h.tol.exact))
			numbers, kept, there := make([]int32, rows), 0.0, 0.0
			h.d.DownloadInts(numbers, a.Rows)
			for i, v := range h.read(a.Y)[:rows*width] {
				if numbers[i/width] >= 0 {
					there++
				}
				if v != 0 {
					kept++
					if numbers[i/width] < 0 || math.Abs(v-x[i]/(1-rate)) > 1e-6*math.Abs(v) {
						h.errorf("%s makes %v of %v in row %d", what, v, x[i], numbers[i/width])
					}
				}
			}
			if sd := math.Sqrt(there * rate * (1 - rate)); math.Abs(kept-there*(1-rate)) > 5*sd+1e-9 {
				h.errorf("%s keeps %v of %v", what, kept, there)
			}
			a.X = h.inout(x)
			a.Y = a.X
			h.check(what+" in place", &a, all(h.tol.exact))
			h.release()
		}
	}
}

// testCollectives covers the collectives of a job of one rank: they change nothing.
func testCollectives(h *harness) {
	for _, lengths := range [][]int32{nil, {3}, {5, 0, 2}} {
		shard := device.Shard{Ranks: 1, Items: 7, Width: 33}
		if lengths != nil {
			shard.Lengths = h.inInts(lengths)
		}
		n, _ := shard.Values()
		a := device.AllGather{Shard: shard, X: h.in(h.normal(n, 1))}
		h.bothWays(fmt.Sprintf("AllGather of %v", lengths), &a, nil, all(h.tol.deriv))
		for _, async := range []bool{false, true} {
			a.Async = async
			h.check(fmt.Sprintf("AllGather of %v, async %v", lengths, async), &a, nil)
			h.check(fmt.Sprintf("ReduceScatter of %v, async %v", lengths, async),
				&device.ReduceScatter{Shard: shard, Async: async, BF16: async, X: a.X}, nil)
			h.check("AllReduce", &device.AllReduce{Async: async, X: h.inout(h.normal(n, 1))}, nil)
		}
		h.check("Wait", &device.Wait{}, nil)
		h.check("Broadcast", &device.Broadcast{X: h.inout(h.normal(n, 1))}, nil)
		h.release()
	}
}

func testSwapAxes(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 1}, {4, 36, 7}, {128, 3, 200}, {2, 9, 20_000}} {
		a := device.SwapAxes{X: h.in(h.normal(s[0]*s[1]*s[2], 1)), A: s[0], B: s[1], Inner: s[2]}
		h.check(fmt.Sprintf("SwapAxes %v", s), &a, nil)
		h.release()
	}
}

// testBatchNorm covers rows, segments, single values, padding rows and rows that are padding alone.
func testBatchNorm(h *harness) {
	for _, s := range [][4]int{{1, 1, 1, 0}, {1, 3, 1, 0}, {2, 5, 1, 0}, {7, 33, 1, 4}, {0, 3, 1, 5}, {70, 129, 1, 1},
		{300, 300, 1, 90},
		{3, 1100, 1, 0}, {2, 4100, 1, 2},
		{1, 1, 17, 0}, {3, 4, 36, 0}, {9, 36, 50, 0}, {5, 2000, 7, 0}} {
		for mode := range 4 {
			if s[0]*s[1]*s[2] > 3300 && mode < 3 { // more of that as in the mode that follows
				continue
			}
			a := device.BatchNorm{Outer: s[0], C: s[1], Inner: s[2], Pads: s[3], Eps: 1e-5, Momentum: 0.1,
				Train: mode > 0}
			batchNorm(h, a, float64(pick(mode == 2, 100, 0)), mode == 3) // a mean far from zero
		}
	}
}

// testBatchNormNaN: a value that is not a number shows in the output and leaves the running statistics alone.
func testBatchNormNaN(h *harness) {
	for _, inner := range []int{1, 2} {
		x := h.normal(4*inner, 1)
		x[0] = math.NaN()
		a := device.BatchNorm{Outer: 2, C: 2, Inner: inner, Train: true, Eps: 1e-5, Momentum: 0.1, X: h.in(x),
			Weight: h.in([]float64{1, 1}), Bias: h.in([]float64{0, 0}), RunningMean: h.inout([]float64{3, 3}),
			RunningVar: h.inout([]float64{5, 5})}
		h.outputs(&a)
		h.run("BatchNorm of NaN", func() { device.Do(h.d, a) })
		y, mean, variance := h.read(a.Y), h.read(a.RunningMean), h.read(a.RunningVar)
		if h.record != nil {
			*h.record = append(append(*h.record, mean...), variance...)
		}
		if !math.IsNaN(y[0]) || math.IsNaN(y[len(y)-1]) || mean[0] != 3 || variance[0] != 5 || mean[1] == 3 ||
			variance[1] == 5 {
			h.errorf("BatchNorm of NaN in channel 0: y %v, running mean %v and variance %v", y, mean, variance)
		}
		h.release()
	}
}

func batchNorm(h *harness, a device.BatchNorm, offset float64, residual bool) {
	what := fmt.Sprintf("BatchNorm [%d, %d, %d] and %d rows, train %v, offset %v, residual %v", a.Outer, a.C, a.Inner,
		a.Pads, a.Train, offset, residual)
	size, n := a.Outer*a.C*a.Inner, float64(a.Outer*a.Inner+a.Pads)
	x, w, pad, mean, variance := h.normal(size, 1), h.normal(a.C, 1), h.normal(a.C, 1), h.normal(a.C, 1),
		h.positive(a.C, 0.1, 1)
	for i := range x {
		x[i] += offset
	}
	for c := range pad {
		pad[c] += offset
	}
	a.X, a.Weight, a.Bias = h.in(h.hold(x)), h.in(w), h.in(h.normal(a.C, 1))
	if residual {
		a.Plus = h.in(h.normal(size, 1))
	}
	if a.Pads > 0 {
		a.Pad = h.in(h.hold(pad))
	}
	first := a
	first.RunningMean, first.RunningVar = h.inout(mean), h.inout(variance)
	h.defined(&first)
	// by how much rounding of x and of its mean is magnified
	largest := max(1, magnitude(h.want(first.InvStd)))
	rounding := 4 * h.tol.exact * (1 + offset) * largest // of x - mean, in deviations
	a.RunningMean, a.RunningVar = h.place(mean, a.Train), h.place(variance, a.Train)
	h.check(what, &a, bounds{"": {rel: h.tol.exact}, "InvStd": {rel: rounding}, "Y": {rel: rounding, abs: rounding},
		"RunningVar": {rel: h.tol.product * (1 + offset)}})
	scale := 4 * rounding * (1 + magnitude(w)) * largest
	h.back(what, &a, bounds{"DX": {abs: scale}, "DWeight": {abs: 2 * rounding * math.Sqrt(n), rel: 2 * rounding},
		"DBias": {rel: h.tol.product, abs: h.tol.product}, "DPad": {rel: scale, abs: scale}})
	a.DX, a.DWeight, a.DPad = device.View{}, device.View{}, device.View{}
	h.check(what+" gradient of the bias", &a, bounds{"DBias": {rel: h.tol.product, abs: h.tol.product}})
	h.release()
}
