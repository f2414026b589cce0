package devicetest

import (
	"cmp"
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// bf16 rounds to bfloat16, to nearest even.
func bf16(x float64) float64 {
	b := math.Float32bits(float32(x))
	return float64(math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff))
}

func testGemm(h *harness) {
	shapes := [][3]int{{1, 1, 1}, {1, 5, 3}, {3, 1, 7}, {2, 3, 0}, {5, 7, 16}, {17, 33, 31}, {16, 64, 48},
		{65, 130, 77}, {128, 96, 257}}
	rounds := h.roundsProducts()
	for n, s := range shapes {
		for mode := range 16 {
			a := device.Gemm{M: s[0], N: s[1], K: s[2], TransA: mode&1 > 0, TransB: mode&2 > 0, Alpha: 1}
			if mode&4 > 0 {
				a.Alpha, a.Beta = -0.75, 0.5
			}
			if mode&8 > 0 {
				a.LDA = pick(a.TransA, a.M, a.K) + 3
				a.LDB = pick(a.TransB, a.K, a.N) + 1
				a.LDC = a.N + 2
				a.Exact = true
			}
			if n%3 == 1 {
				a.Batch = 3
			}
			gemm(h, a, (mode+n)%3 == 0, rounds && !a.Exact)
		}
	}
	// One operand shared by the whole batch.
	gemm(h, device.Gemm{M: 4, N: 6, K: 5, Batch: 4, TransB: true, Alpha: 2, StrideA: -1}, false, rounds)
	gemm(h, device.Gemm{M: 4, N: 6, K: 5, Batch: 4, Alpha: 1, StrideB: -1}, true, rounds)
	// Products of groups of columns side by side.
	for _, m := range []int{1, 4, 50} {
		gemm(h, device.Gemm{M: m, N: 6, K: 5, Batch: 3, Alpha: 1, LDA: 17, LDC: 20, StrideA: besideStride,
			StrideC: besideStride, Exact: true}, false, false)
		gemm(h, device.Gemm{M: m, N: 36, K: 36, Batch: 3, Alpha: 1, LDA: 108, LDC: 108, StrideA: besideStride,
			StrideC: besideStride, Exact: true}, false, false)
	}
}

const besideStride = -2 // requests operands side by side in the rows of one matrix

// gemm runs one product; gaps between rows and items hold NaN. A stride of -1 requests a shared operand.
func gemm(h *harness, a device.Gemm, bias, rounds bool) {
	what := fmt.Sprintf("Gemm %dx%dx%d transA=%v transB=%v ld=%d,%d,%d batch=%d bias=%v exact=%v alpha=%v beta=%v",
		a.M, a.N, a.K, a.TransA, a.TransB, a.LDA, a.LDB, a.LDC, a.Batch, bias, a.Exact, a.Alpha, a.Beta)
	items := max(1, a.Batch)
	operand := func(rows, cols, ld int, stride *int) []float64 {
		ld = cmp.Or(ld, cols)
		size, n := max(1, rows*ld), items
		switch {
		case *stride == -1:
			*stride, n = 0, 1
		case *stride == besideStride:
			*stride = cols
			return beside(h, rows, cols, ld, n)
		case items > 1:
			*stride = size + 5
		}
		x := nans((n-1)**stride + size)
		for b := range n {
			for r := range rows {
				copy(x[b**stride+r*ld:], h.normal(cols, 1))
			}
		}
		return x
	}
	ar, ac := a.M, a.K
	if a.TransA {
		ar, ac = ac, ar
	}
	br, bc := a.K, a.N
	if a.TransB {
		br, bc = bc, br
	}
	a.A, a.B = h.in(operand(ar, ac, a.LDA, &a.StrideA)), h.in(operand(br, bc, a.LDB, &a.StrideB))
	c := operand(a.M, a.N, a.LDC, &a.StrideC)
	if a.Beta == 0 {
		c = nans(len(c)) // must not be read
	}
	a.C = h.inout(c)
	if bias {
		a.Bias = h.in(h.normal(a.N, 1))
	}
	tol := h.tol.product
	switch {
	case rounds && h.rounds > 0:
		tol = h.tol.reduced
	case rounds:
		rounded(h, a.A)
		rounded(h, a.B)
	}
	h.check(what, &a, all(tol))
	h.release()
}

// rounded rounds what the reference reads to bfloat16.
func rounded(h *harness, v device.View) {
	x := h.want(v)
	for i := range x {
		x[i] = bf16(x[i])
	}
	h.ref.UploadDoubles(device.View{Buf: h.regionOf(v).mirror, Off: v.Off, N: v.N}, x)
}

// beside are rows of ld values of which the first n·cols are there.
func beside(h *harness, rows, cols, ld, n int) []float64 {
	x := nans(rows * ld)
	for r := range rows {
		copy(x[r*ld:], h.normal(n*cols, 1))
	}
	return x
}

// testActive is a product with an activation after it, and the way back through bias and activation.
func testActive(h *harness) {
	for n, s := range [][3]int{{1, 1, 1}, {3, 5, 4}, {7, 33, 16}, {130, 40, 9}, {300, 257, 3}, {19, 2100, 2}} {
		for _, f := range []device.Activation{device.ReLU, device.GELU, device.Abs, device.Tanh} {
			active(h, f, s[0], s[1], s[2], n%2 == 1)
		}
	}
}

func active(h *harness, f device.Activation, m, n, k int, bias bool) {
	a := device.Gemm{TransB: true, M: m, N: n, K: k, Alpha: 1, A: h.in(h.normal(m*k, 1)), B: h.in(h.normal(n*k, 1)),
		Exact: true, F: f, Active: h.out(m*n + 2)}
	if bias {
		a.Bias = h.in(h.normal(n, 1))
	}
	h.check(fmt.Sprintf("Gemm %dx%dx%d with function %d, bias=%v", m, n, k, f, bias), &a, all(h.tol.product))
	h.release()
	if f == device.Tanh {
		return
	}
	what, tol := fmt.Sprintf("BiasActivate %dx%d of function %d", m, n, f), bounds{"": {rel: h.tol.exact},
		"DBias": {rel: h.tol.product}}
	pre, dy := h.normal(m*n, math.Sqrt(float64(k))), h.normal(m*n, 1)
	x, slopes, both := h.in(pre), h.inout(dy), h.inout(pre)
	g := device.BiasActivate{F: f, M: m, N: n, X: x, Y: h.out(m * n), DY: h.in(dy), DBias: h.out(n)}
	h.check(what, &g, tol)
	h.check(what+" in place", &device.BiasActivate{F: f, M: m, N: n, X: both, Y: both, DY: slopes, DX: slopes}, tol)
	h.check(what+" without Y", &device.BiasActivate{F: f, M: m, N: n, X: x, DY: g.DY, DBias: h.out(n)}, tol)
	h.release()
}

func testSumSquares(h *harness) {
	for _, n := range append([]int{0}, lengths1...) {
		h.check(fmt.Sprintf("SumSquares of %d", n), &device.SumSquares{Sum: h.inout([]float64{1.5}),
			X: h.in(h.normal(n, 1))}, all(h.tol.exact))
		h.release()
	}
}

func testClip(h *harness) {
	for _, s := range []float64{0, 1e-20, 0.5, 4, 30.5, 1e12} {
		h.check(fmt.Sprintf("ClipCoefficient of %v", s), &device.ClipCoefficient{SumSquares: h.in([]float64{s}),
			Most: 2}, all(h.tol.exact))
		h.release()
	}
}

func testAdam(h *harness) {
	for _, n := range lengths1 {
		for mode := range 4 {
			adam(h, n, mode&1 > 0, mode&2 > 0)
		}
	}
}

// adam runs five steps with changing gradients, as training does.
func adam(h *harness, n int, legacy, clipped bool) {
	what := fmt.Sprintf("Adam of %d legacy=%v clip=%v", n, legacy, clipped)
	const beta1, beta2, eps, lr, decay = 0.9, 0.999, 1e-8, 2e-3, 1e-2
	a := device.Adam{P: h.inout(h.normal(n, 1)), M: h.inout(make([]float64, n)), V: h.inout(make([]float64, n)),
		Beta1: beta1, Beta2: beta2, Eps: eps, Legacy: legacy}
	if clipped {
		a.Clip = h.in([]float64{0.37})
	}
	for t := 1; t <= 5; t++ {
		g := h.normal(n, 0.1)
		g[0] = 0 // no gradient yet: nothing moves but the decay
		if n > 2 {
			g[1], g[2] = 1e-9, 1e-30 // around ε
		}
		a.G = h.in(g)
		a.Hyper = h.in([]float64{lr / (1 - math.Pow(beta1, float64(t))), 1 / math.Sqrt(1-math.Pow(beta2, float64(t))),
			1 - lr*decay})
		if t < 5 {
			h.define(&a)
			h.run(what, func() { device.Do(h.d, a) })
		}
	}
	h.check(what, &a, all(4*h.tol.exact))
	h.release()
}

// testFactored compares the kernels of gradients known as products with the product written out. The last shape is
// wider than what a device is likely to keep in fast memory.
func testFactored(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 70}, {8, 33, 129}, {64, 24, 1000}, {2, 300, 700}, {2, 8, 21_000}} {
		for mode := range pick(s[2] < 2000, 3, 1) {
			factored(h, device.Factored{N: s[0], O: s[1], I: s[2]}, mode == 1, mode == 2)
		}
	}
}

func factored(h *harness, f device.Factored, legacy, clipped bool) {
	what := fmt.Sprintf("N=%d, weight [%d, %d] legacy=%v clip=%v", f.N, f.O, f.I, legacy, clipped)
	n := f.O * f.I
	dy, x := h.normal(f.N*f.O, 1), h.normal(f.N*f.I, 1)
	if h.roundsProducts() { // whatever the device rounds is exact already
		for _, s := range [][]float64{dy, x} {
			for i := range s {
				s[i] = bf16(s[i])
			}
		}
	}
	f.DY, f.X = h.in(dy), h.in(x)
	h.check("SumSquaresFactored: "+what, &device.SumSquaresFactored{Sum: h.inout([]float64{0.5}), Factored: f},
		all(10*h.tol.product))
	// With a large ε the update is a smooth function of the gradient, so that roundings stay roundings.
	a := device.Adam{P: h.inout(h.normal(n, 1)), M: h.inout(h.normal(n, 1)), V: h.inout(h.positive(n, 0, 1)),
		Hyper: h.in([]float64{0.01, 1.5, 0.99}), Beta1: 0.9, Beta2: 0.99, Eps: 0.5, Legacy: legacy}
	if clipped {
		a.Clip = h.in([]float64{0.37})
	}
	h.check("AdamFactored: "+what, &device.AdamFactored{Adam: a, Factored: f}, all(h.tol.product))
	h.release()
}
