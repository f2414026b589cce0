package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

func testSumSquares(h *harness) {
	for _, n := range append([]int{0}, lengths1...) {
		x := h.normal(n, 1)
		want := 1.5
		for _, v := range x {
			want += v * v
		}
		acc, vx := h.inout([]float64{1.5}), h.in(x)
		what := fmt.Sprintf("SumSquares of %d", n)
		h.run(what, func() { device.Do(h.d, device.SumSquares{Sum: acc, X: vx}) })
		h.equal(what, acc, []float64{want}, h.tol.exact)
		h.steady(what, func() { device.Do(h.d, device.SumSquares{Sum: acc, X: vx}) })
		h.release()
	}
}

func testClip(h *harness) {
	for _, s := range []float64{0, 1e-20, 0.5, 4, 30.5, 1e12} {
		squares := h.in([]float64{s})
		held := h.read(squares)[0]
		coef, norm := h.out(1), h.out(1)
		what := fmt.Sprintf("ClipCoefficient of %v", s)
		call := func() {
			device.Do(h.d, device.ClipCoefficient{Coefficient: coef, Norm: norm, SumSquares: squares, Most: 2})
		}
		h.run(what, call)
		h.equal(what+": norm", norm, []float64{math.Sqrt(held)}, h.tol.exact)
		h.equal(what, coef, []float64{min(1, 2/(math.Sqrt(held)+1e-6))}, h.tol.exact)
		h.steady(what, call)
		h.release()
	}
}

func testAdam(h *harness) {
	for _, n := range lengths1 {
		for mode := range 4 {
			h.adam(n, mode&1 > 0, mode&2 > 0)
		}
	}
}

// adam runs five steps with changing gradients, as training does.
func (h *harness) adam(n int, legacy, clipped bool) {
	what := fmt.Sprintf("Adam of %d legacy=%v clip=%v", n, legacy, clipped)
	const beta1, beta2, eps, lr, decay = 0.9, 0.999, 1e-8, 2e-3, 1e-2
	p, m, v := h.normal(n, 1), make([]float64, n), make([]float64, n)
	a := device.Adam{P: h.inout(p), M: h.inout(m), V: h.inout(v), G: h.inout(make([]float64, n)),
		Hyper: h.inout(make([]float64, 3)), Beta1: beta1, Beta2: beta2, Eps: eps, Legacy: legacy}
	factor := 1.0
	if clipped {
		factor = h.hold([]float64{0.37})[0]
		a.Clip = h.in([]float64{factor})
	}
	for t := 1; t <= 5; t++ {
		g := h.normal(n, 0.1)
		g[0] = 0 // no gradient yet: nothing moves but the decay
		if n > 2 {
			g[1], g[2] = 1e-9, 1e-30 // around ε
		}
		h.hold(g)
		correction1, correction2 := 1-math.Pow(beta1, float64(t)), 1-math.Pow(beta2, float64(t))
		h.d.UploadDoubles(a.G, g)
		h.d.UploadDoubles(a.Hyper, []float64{lr / correction1, 1 / math.Sqrt(correction2), 1 - lr*decay})
		h.run(what, func() { device.Do(h.d, a) })
		for i := range p {
			gi := factor * g[i]
			m[i] = beta1*m[i] + (1-beta1)*gi
			v[i] = beta2*v[i] + (1-beta2)*gi*gi
			p[i] *= 1 - lr*decay
			if legacy {
				p[i] -= lr * math.Sqrt(correction2) / correction1 * m[i] / (math.Sqrt(v[i]) + eps)
			} else {
				p[i] -= lr / correction1 * m[i] / (math.Sqrt(v[i])/math.Sqrt(correction2) + eps)
			}
		}
	}
	h.equal(what+": parameters", a.P, p, 4*h.tol.exact)
	h.equal(what+": first moment", a.M, m, 4*h.tol.exact)
	h.equal(what+": second moment", a.V, v, 4*h.tol.exact)
	h.steady(what, func() { device.Do(h.d, a) })
	h.release()
}
