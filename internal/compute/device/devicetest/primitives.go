package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// mappings are the definitions of device.Function, with arguments that they are defined for.
var mappings = []struct {
	f      device.Function
	name   string
	c      float64
	values []float64 // the hard ones
	draw   func(x float64) float64
	value  func(x, c float64) float64
	slope  func(x, c float64) float64
}{
	{device.LeakyReLU, "LeakyReLU", 0.1, []float64{0, 1e-30, -1e-30, -3}, func(x float64) float64 { return x },
		func(x, c float64) float64 { return max(x, 0) + c*min(x, 0) },
		func(x, c float64) float64 { return 1 - (1-c)*float64(pick(x <= 0, 1, 0)) }},
	{device.Exp, "Exp", 0, []float64{0, 20, -80}, func(x float64) float64 { return x },
		func(x, _ float64) float64 { return math.Exp(x) }, func(x, _ float64) float64 { return math.Exp(x) }},
	{device.Log, "Log", 0, []float64{1, 1e-6, 1e6}, func(x float64) float64 { return math.Exp(x) },
		func(x, _ float64) float64 { return math.Log(x) }, func(x, _ float64) float64 { return 1 / x }},
	{device.Sqrt, "Sqrt", 0, []float64{0, 1, 1e4}, func(x float64) float64 { return 0.1 + x*x },
		func(x, _ float64) float64 { return math.Sqrt(x) }, func(x, _ float64) float64 {
			if x == 0 {
				return 0
			}
			return 1 / (2 * math.Sqrt(x))
		}},
	{device.Reciprocal, "Reciprocal", 0.5, []float64{0, 1, 100}, func(x float64) float64 { return x * x },
		func(x, c float64) float64 { return 1 / (x + c) }, func(x,
			c float64) float64 {
			return -1 / ((x + c) * (x + c))
		}},
	{device.Inverse, "Inverse", 0.5, []float64{0, 0.5, 0.25, 100}, func(x float64) float64 { return x * x },
		func(x, c float64) float64 { return 1 / max(x, c) },
		func(x, c float64) float64 { return -float64(pick(x >= c, 1, 0)) / (max(x, c) * max(x, c)) }},
}

func testPrimitives(h *harness) {
	for _, n := range lengths1 {
		h.multiply(n)
		for _, m := range mappings {
			what := fmt.Sprintf("%s of %d", m.name, n)
			x := h.normal(n, 1)
			for i := range x {
				x[i] = m.draw(x[i])
			}
			copy(x, m.values)
			h.hold(x)
			dy, y, dx := h.normal(n, 1), make([]float64, n), make([]float64, n)
			for i := range x {
				y[i] = m.value(x[i], m.c)
			}
			h.hold(y)
			for i := range x {
				dx[i] = dy[i] * m.slope(x[i], m.c)
			}
			a := device.Map{F: m.f, C: m.c, X: h.in(x)}
			h.outputs(&a)
			h.run(what, func() { device.Do(h.d, a) })
			h.equal(what, a.Y, y, h.tol.exact)
			h.steady(what, func() { device.Do(h.d, a) })
			both := h.inout(x)
			h.run(what+" in place", func() { device.Do(h.d, device.Map{F: m.f, C: m.c, X: both, Y: both}) })
			h.equal(what+" in place", both, y, h.tol.exact)
			a.Y, a.DY = h.in(y), h.in(dy)
			h.gradOutputs(&a)
			h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
			h.equal(what+" gradient", a.DX, dx, 4*h.tol.exact)
			h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
			a.DX = h.inout(dy)
			a.DY = a.DX
			h.run(what+" gradient in place", func() { device.DoGrad(h.d, a) })
			h.equal(what+" gradient in place", a.DX, dx, 4*h.tol.exact)
			h.release()
		}
	}
	for _, d := range []int{1, 5, 36, 64, 300} {
		for _, n := range []int{1, 7, 129} {
			h.reduce(n, d, nil)
		}
		for _, counts := range h.lengthCases() {
			h.reduce(0, d, counts)
			h.segmentProducts(counts, d)
		}
	}
}

func (h *harness) multiply(n int) {
	a, b, want := h.normal(n, 1), h.normal(n, 1), make([]float64, n)
	for i := range want {
		want[i] = a[i] * b[i]
	}
	what := fmt.Sprintf("Multiply of %d", n)
	x, y, out := h.in(a), h.in(b), h.out(n)
	h.run(what, func() { device.Do(h.d, device.Multiply{Dst: out, A: x, B: y}) })
	h.equal(what, out, want, h.tol.exact)
	h.steady(what, func() { device.Do(h.d, device.Multiply{Dst: out, A: x, B: y}) })
	for _, left := range []bool{true, false} {
		in := h.inout(a)
		h.run(what+" in place", func() {
			if left {
				device.Do(h.d, device.Multiply{Dst: in, A: in, B: y})
			} else {
				device.Do(h.d, device.Multiply{Dst: in, A: y, B: in})
			}
		})
		h.equal(what+" in place", in, want, h.tol.exact)
	}
	h.release()
}

// reduce tests reductions along n rows, or where there are counts along segments.
func (h *harness) reduce(n, d int, counts []int32) {
	what := fmt.Sprintf("reduction of %d rows of %d", n, d)
	// groups lists the elements of every result
	var groups [][]int
	for r := range n {
		var g []int
		for k := range d {
			g = append(g, r*d+k)
		}
		groups = append(groups, g)
	}
	a := device.Reduce{N: n, D: d}
	size := n * d
	if counts != nil {
		what = fmt.Sprintf("reduction of %v rows of %d", counts, d)
		first := captionsOf(counts)
		for s := range counts {
			for k := range d {
				var g []int
				for r := first[s]; r < first[s+1]; r++ {
					g = append(g, r*d+k)
				}
				groups = append(groups, g)
			}
		}
		a.Counts, size = h.inInts(counts), first[len(counts)]*d
	}
	x := h.normal(size, 1)
	for i := range x { // some ties
		x[i] = math.Round(4*x[i]) / 4
	}
	y := h.normal(len(groups), 1)
	sums, most, index := make([]float64, len(groups)), make([]float64, len(groups)), make([]int32, len(groups))
	spread, picked := make([]float64, size), make([]float64, size)
	for r, g := range groups {
		most[r] = math.Inf(-1)
		for k, i := range g {
			sums[r] += x[i]
			if x[i] > most[r] {
				most[r], index[r] = x[i], int32(k)
			}
			spread[i] = y[r]
		}
		picked[g[index[r]]] = y[r]
	}
	a.X, a.Y, a.Index = h.in(x), h.out(len(groups)), h.outInts(len(groups))
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what+": sums", a.Y, sums, h.tol.product)
	h.steady(what, func() { device.Do(h.d, a) })
	a.Max = true
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what+": maxima", a.Y, most, 0)
	h.equalInts(what+": positions", a.Index, index)
	h.steady(what, func() { device.Do(h.d, a) })
	back := a
	back.X, back.Y = h.out(size), h.in(y)
	h.run(what, func() { device.DoGrad(h.d, back) })
	h.equal(what+": spread to positions", back.X, picked, 0)
	h.steady(what, func() { device.DoGrad(h.d, back) })
	back.Max, back.X = false, h.out(size)
	h.run(what, func() { device.DoGrad(h.d, back) })
	h.equal(what+": spread", back.X, spread, 0)
	h.steady(what, func() { device.DoGrad(h.d, back) })
	h.release()
}

func (h *harness) segmentProducts(counts []int32, d int) {
	first, longest := captionsOf(counts), 3
	for _, c := range counts {
		longest = max(longest, int(c)+1)
	}
	rows := first[len(counts)]
	a, b, g := h.normal(rows*d, 1), h.normal(rows*d, 1), h.normal(rows*longest, 1)
	gram, apply, transposed := append([]float64(nil), g...), make([]float64, rows*d), make([]float64, rows*d)
	for s := range counts {
		lo := first[s]
		for i := range int(counts[s]) {
			for j := range int(counts[s]) {
				gram[(lo+i)*longest+j] = sum(d, func(k int) float64 { return a[(lo+i)*d+k] * b[(lo+j)*d+k] })
				for k := range d {
					apply[(lo+i)*d+k] += g[(lo+i)*longest+j] * a[(lo+j)*d+k]
					transposed[(lo+i)*d+k] += g[(lo+j)*longest+i] * a[(lo+j)*d+k]
				}
			}
		}
	}
	what := fmt.Sprintf("SegmentProducts of %v rows of %d", counts, d)
	args := device.SegmentProducts{D: d, Longest: longest, Counts: h.inInts(counts), A: h.in(a), B: h.in(b),
		G: h.inout(g)}
	h.run(what, func() { device.Do(h.d, args) })
	h.equal(what+": Gram", args.G, gram, h.tol.product)
	h.steady(what, func() { device.Do(h.d, args) })
	args.G, args.B = h.in(g), h.out(rows*d)
	for _, form := range []device.SegmentForm{device.SegmentApply, device.SegmentApplyT} {
		args.Form = form
		want := apply
		if form == device.SegmentApplyT {
			want = transposed
		}
		h.run(what, func() { device.Do(h.d, args) })
		h.equal(fmt.Sprintf("%s: form %d", what, form), args.B, want, h.tol.product)
		h.steady(what, func() { device.Do(h.d, args) })
	}
	h.release()
}
