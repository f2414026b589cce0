package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

var lengths1 = []int{1, 2, 15, 16, 17, 31, 64, 100, 1025, 20_011}

func testElementwise(h *harness) {
	for _, n := range lengths1 {
		a, b := h.normal(n, 1), h.normal(n, 1)
		va, vb, y := h.in(a), h.in(b), h.out(n)
		what := fmt.Sprintf("Add of %d", n)
		h.run(what, func() { device.Do(h.d, device.Add{Dst: y, A: va, B: vb}) })
		sum := make([]float64, n)
		for i := range sum {
			sum[i] = a[i] + b[i]
		}
		h.equal(what, y, sum, h.tol.exact)
		h.steady(what, func() { device.Do(h.d, device.Add{Dst: y, A: va, B: vb}) })

		inPlace := h.inout(a)
		h.run(what+" in place", func() { device.Do(h.d, device.Add{Dst: inPlace, A: inPlace, B: vb}) })
		h.equal(what+" in place", inPlace, sum, h.tol.exact)
		right := h.inout(b)
		h.run(what+" in place", func() { device.Do(h.d, device.Add{Dst: right, A: va, B: right}) })
		h.equal(what+" in place", right, sum, h.tol.exact)

		what = fmt.Sprintf("Scale of %d", n)
		factor := h.normal(1, 1)
		vf := h.in(factor)
		h.run(what, func() { device.Do(h.d, device.Scale{Dst: y, X: va, Factor: vf}) })
		scaled := make([]float64, n)
		for i := range scaled {
			scaled[i] = a[i] * factor[0]
		}
		h.equal(what, y, scaled, h.tol.exact)
		h.steady(what, func() { device.Do(h.d, device.Scale{Dst: y, X: va, Factor: vf}) })
		inPlace = h.inout(a)
		h.run(what+" in place", func() { device.Do(h.d, device.Scale{Dst: inPlace, X: inPlace, Factor: vf}) })
		h.equal(what+" in place", inPlace, scaled, h.tol.exact)
		h.release()
		for f := range functions {
			h.activation(device.Activation(f), n)
		}
	}
}

// functions are the definitions of device.Activation: value and derivative.
var functions = []struct {
	name  string
	value func(x float64) float64
	slope func(x float64) float64
}{
	device.ReLU: {"ReLU", func(x float64) float64 { return max(0, x) },
		func(x float64) float64 { return float64(pick(x > 0, 1, 0)) }},
	device.Tanh: {"Tanh", math.Tanh, func(x float64) float64 { return 1 / (math.Cosh(x) * math.Cosh(x)) }},
	device.Sigmoid: {"Sigmoid", func(x float64) float64 { return 1 / (1 + math.Exp(-x)) },
		func(x float64) float64 { return 1 / ((1 + math.Exp(-x)) * (1 + math.Exp(x))) }},
	device.Abs: {"Abs", math.Abs, func(x float64) float64 { return float64(pick(x > 0, 1, 0) - pick(x < 0, 1, 0)) }},
	device.GELU: {"GELU", func(x float64) float64 { return x / 2 * math.Erfc(-x/math.Sqrt2) }, func(x float64) float64 {
		return math.Erfc(-x/math.Sqrt2)/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	}},
}

func (h *harness) activation(f device.Activation, n int) {
	what := fmt.Sprintf("%s of %d", functions[f].name, n)
	x, dy := h.normal(n, 3), h.normal(n, 1)
	// the hard places first
	copy(x, []float64{0, math.Copysign(0, -1), 1e-30, -1e-30, 30, -30, 200, -200, 0.625, -0.625, 1, -1})
	h.hold(x)
	y, slope := make([]float64, n), make([]float64, n)
	for i := range x {
		y[i], slope[i] = functions[f].value(x[i]), dy[i]*functions[f].slope(x[i])
	}
	vx, vy := h.in(x), h.out(n)
	h.run(what, func() { device.Do(h.d, device.Activate{F: f, Y: vy, X: vx}) })
	h.equal(what, vy, y, h.tol.exact)
	h.steady(what, func() { device.Do(h.d, device.Activate{F: f, Y: vy, X: vx}) })
	both := h.inout(x)
	h.run(what+" in place", func() { device.Do(h.d, device.Activate{F: f, Y: both, X: both}) })
	h.equal(what+" in place", both, y, h.tol.exact)

	// The gradient of tanh and of the sigmoid reads y, the others read x; what is not read may hold anything.
	vy, vdy, dx := h.in(y), h.in(dy), h.out(n)
	h.run(what+" gradient", func() { device.DoGrad(h.d, device.Activate{F: f, DX: dx, X: vx, Y: vy, DY: vdy}) })
	h.equal(what+" gradient", dx, slope, h.tol.exact)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, device.Activate{F: f, DX: dx, X: vx, Y: vy, DY: vdy}) })
	into := h.inout(dy)
	if f == device.Tanh || f == device.Sigmoid {
		vx = device.View{}
	} else {
		vy = device.View{}
	}
	h.run(what+" gradient in place", func() {
		device.DoGrad(h.d, device.Activate{F: f, DX: into, X: vx, Y: vy, DY: into})
	})
	h.equal(what+" gradient in place", into, slope, h.tol.exact)

	// A value that is not a number must stay visible.
	x[n/2] = math.NaN()
	nan, out := h.in(x), h.out(n)
	h.run(what, func() { device.Do(h.d, device.Activate{F: f, Y: out, X: nan}) })
	if !h.short && !math.IsNaN(h.read(out)[n/2]) {
		h.errorf("%s: NaN became %v", what, h.read(out)[n/2])
	}
	h.release()
}

// testActive is a product with an activation behind it, and the way back through bias and activation.
func testActive(h *harness) {
	for n, s := range [][3]int{{1, 1, 1}, {3, 5, 4}, {7, 33, 16}, {130, 40, 9}, {300, 257, 3}, {19, 2100, 2}} {
		for _, f := range []device.Activation{device.ReLU, device.GELU, device.Abs, device.Tanh} {
			h.active(f, s[0], s[1], s[2], n%2 == 1)
		}
	}
}

func (h *harness) active(f device.Activation, m, n, k int, bias bool) {
	what := fmt.Sprintf("Gemm %dx%dx%d with %s, bias=%v", m, n, k, functions[f].name, bias)
	x, w, b := h.normal(m*k, 1), h.normal(n*k, 1), make([]float64, n)
	a := device.Gemm{TransB: true, M: m, N: n, K: k, Alpha: 1, A: h.in(x), B: h.in(w), C: h.out(m*n + 2),
		Exact: true, F: f, Active: h.out(m*n + 2)}
	if bias {
		b = h.normal(n, 1)
		a.Bias = h.in(b)
	}
	h.run(what, func() { device.Do(h.d, a) })
	pre := referenceGemm(device.Gemm{TransB: true, M: m, N: n, K: k, Alpha: 1}, x, w, make([]float64, m*n), b,
		func(v float64) float64 { return v })
	y := make([]float64, m*n)
	for i, v := range pre {
		y[i] = functions[f].value(v)
	}
	h.equal(what, a.C, padded(append([]float64(nil), pre...), 2), h.tol.product)
	h.equal(what+": active", a.Active, padded(y, 2), h.tol.product)
	h.steady(what, func() { device.Do(h.d, a) })
	h.release()
	if f == device.Tanh {
		return
	}

	what = fmt.Sprintf("BiasActivateGrad %dx%d of %s", m, n, functions[f].name)
	h.hold(pre)
	dy, dx, dbias := h.normal(m*n, 1), make([]float64, m*n), make([]float64, n)
	for i, v := range pre {
		y[i] = functions[f].value(v)
		dx[i] = dy[i] * functions[f].slope(v)
		dbias[i%n] += dx[i]
	}
	g := device.BiasActivate{F: f, M: m, N: n, X: h.in(pre), Y: h.out(m * n), DY: h.in(dy), DX: h.out(m * n),
		DBias: h.out(n)}
	h.run(what, func() { device.Do(h.d, g) })
	h.equal(what+": DX", g.DX, dx, h.tol.exact)
	h.equal(what+": Y", g.Y, y, h.tol.exact)
	h.equal(what+": DBias", g.DBias, dbias, h.tol.product)
	h.steady(what, func() { device.Do(h.d, g) })
	slopes := h.inout(dy)
	both := h.inout(pre)
	g.X, g.Y, g.DY, g.DX, g.DBias = both, both, slopes, slopes, device.View{}
	h.run(what+" in place", func() { device.Do(h.d, g) })
	h.equal(what+" in place: DX", slopes, dx, h.tol.exact)
	h.equal(what+" in place: Y", both, y, h.tol.exact)
	g.X, g.Y, g.DY, g.DX, g.DBias = h.in(pre), device.View{}, h.in(dy), h.out(m*n), h.out(n)
	h.run(what+" without Y", func() { device.Do(h.d, g) })
	h.equal(what+" without Y: DX", g.DX, dx, h.tol.exact)
	h.equal(what+" without Y: DBias", g.DBias, dbias, h.tol.product)
	h.release()
}

func testColumnSum(h *harness) {
	for _, s := range [][2]int{{1, 1}, {1, 9}, {0, 4}, {7, 1}, {33, 16}, {5, 511}, {300, 1537}, {1970, 40}, {700, 129},
		{17, 8200}} {
		rows, cols := s[0], s[1]
		x := h.normal(rows*cols, 1)
		sum := make([]float64, cols)
		for i, v := range x {
			sum[i%cols] += v
		}
		vx, dst := h.in(x), h.out(cols)
		what := fmt.Sprintf("ColumnSum %dx%d", rows, cols)
		call := func() { device.Do(h.d, device.ColumnSum{Dst: dst, X: vx, Rows: rows, Columns: cols}) }
		h.run(what, call)
		h.equal(what, dst, sum, h.tol.product)
		h.steady(what, call)
		h.release()
	}
}

func testL2Norm(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 1}, {7, 16, 1}, {128, 1024, 1}, {3, 1030, 1}, {2, 36, 3}, {3, 4, 50},
		{5, 9, 2048}, {64, 7, 33}} {
		for _, eps := range []float64{0, 1e-8, 0.5} {
			h.norm(device.L2Norm{Outer: s[0], N: s[1], Inner: s[2], Eps: eps})
		}
	}
}

func (h *harness) norm(a device.L2Norm) {
	what := fmt.Sprintf("L2Norm [%d, %d, %d] eps %v", a.Outer, a.N, a.Inner, a.Eps)
	size := a.Outer * a.N * a.Inner
	x, dy := h.normal(size, 2), h.normal(size, 1)
	if a.Outer > 1 { // the vector of item 1, column 0 is zero
		for k := range a.N {
			x[(a.N+k)*a.Inner] = 0
		}
	}
	y, dx, norm := make([]float64, size), make([]float64, size), make([]float64, a.Outer*a.Inner)
	var terms float64 // magnitude of the two terms of dx, which may cancel
	for o := range a.Outer {
		for c := range a.Inner {
			at := func(k int) int { return (o*a.N+k)*a.Inner + c }
			var squares, dot float64
			for k := range a.N {
				squares += x[at(k)] * x[at(k)]
				dot += x[at(k)] * dy[at(k)]
			}
			r := math.Sqrt(squares)
			norm[o*a.Inner+c] = r
			for k := range a.N {
				switch i := at(k); {
				case r > 0:
					terms = max(terms, math.Abs(dy[i])/(r+a.Eps))
					y[i] = x[i] / (r + a.Eps)
					dx[i] = dy[i]/(r+a.Eps) - x[i]*dot/(r*(r+a.Eps)*(r+a.Eps))
				case a.Eps > 0:
					dx[i] = dy[i] / a.Eps
					terms = max(terms, math.Abs(dx[i]))
				}
			}
		}
	}
	a.X = h.in(x)
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what+": y", a.Y, y, h.tol.exact)
	h.equal(what+": norm", a.Norm, norm, h.tol.exact)
	h.steady(what, func() { device.Do(h.d, a) })
	a.DY, a.Norm = h.in(dy), h.in(norm)
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.equalTo(what+" gradient", a.DX, dx, 4*h.tol.exact*terms)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.release()
}

func testOrder(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {2, 3, 5}, {17, 9, 33}, {5, 40, 1024}} {
		b, c, n := s[0], s[1], s[2]
		what := fmt.Sprintf("OrderScores [%d, %d] x [%d, %d]", b, n, c, n)
		im, cap, ds := h.normal(b*n, 1), h.normal(c*n, 1), h.normal(b*c, 1)
		if b > 1 { // image 1 lies above caption 0 everywhere: score 0, no gradient
			for k := range n {
				im[n+k] = cap[k] + 1
			}
			h.hold(im)
		}
		scores, di, dc := make([]float64, b*c), make([]float64, b*n), make([]float64, c*n)
		for i := range b {
			for j := range c {
				var s float64
				for k := range n {
					e := max(0, cap[j*n+k]-im[i*n+k])
					s += e * e
				}
				scores[i*c+j] = -math.Sqrt(s)
				for k := range n {
					if e := max(0, cap[j*n+k]-im[i*n+k]); s > 0 {
						di[i*n+k] += ds[i*c+j] * e / math.Sqrt(s)
						dc[j*n+k] -= ds[i*c+j] * e / math.Sqrt(s)
					}
				}
			}
		}
		a := device.OrderScores{B: b, C: c, D: n, Images: h.in(im), Captions: h.in(cap)}
		h.outputs(&a)
		h.run(what, func() { device.Do(h.d, a) })
		h.equal(what, a.Scores, scores, h.tol.exact)
		h.steady(what, func() { device.Do(h.d, a) })
		a.Scores, a.DScores, a.DImages, a.DCaptions = h.in(scores), h.in(ds), h.out(b*n), h.out(c*n)
		h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.equal(what+": images' gradient", a.DImages, di, h.tol.product)
		h.equal(what+": captions' gradient", a.DCaptions, dc, h.tol.product)
		h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
		h.release()
	}
}
