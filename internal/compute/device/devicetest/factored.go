package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// testFactored compares the kernels of gradients known as products with the product written out. The last shape is
// wider than what a device is likely to keep in fast memory.
func testFactored(h *harness) {
	for _, s := range [][3]int{{1, 1, 1}, {3, 5, 70}, {8, 33, 129}, {64, 24, 1000}, {2, 300, 8000}, {2, 8, 21_000}} {
		for mode := range pick(s[2] < 8000, 3, 1) {
			h.factored(device.Factored{N: s[0], O: s[1], I: s[2]}, mode == 1, mode == 2)
		}
	}
}

func (h *harness) factored(f device.Factored, legacy, clipped bool) {
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
	g := make([]float64, n)
	var squares float64
	if !h.short {
		for b := range f.N {
			for o := range f.O {
				for i, v := range x[b*f.I : (b+1)*f.I] {
					g[o*f.I+i] += dy[b*f.O+o] * v
				}
			}
		}
		for _, v := range g {
			squares += v * v
		}
	}
	f.DY, f.X = h.in(dy), h.in(x)
	acc := h.inout([]float64{0.5})
	h.run("SumSquaresFactored: "+what, func() { device.Do(h.d, device.SumSquaresFactored{Sum: acc, Factored: f}) })
	h.equal("SumSquaresFactored: "+what, acc, []float64{0.5 + squares}, 10*h.tol.product)
	h.steady("SumSquaresFactored: "+what, func() { device.Do(h.d, device.SumSquaresFactored{Sum: acc, Factored: f}) })

	// With a large ε the update is a smooth function of the gradient, so that roundings stay roundings.
	const beta1, beta2, eps, step, inverse, decay = 0.9, 0.99, 0.5, 0.01, 1.5, 0.99
	p, m, v := h.normal(n, 1), h.normal(n, 1), h.normal(n, 1)
	for i := range v {
		v[i] *= v[i]
	}
	h.hold(v)
	a := device.Adam{P: h.inout(p), M: h.inout(m), V: h.inout(v), Hyper: h.in([]float64{step, inverse, decay}),
		Beta1: beta1, Beta2: beta2, Eps: eps, Legacy: legacy}
	factor := 1.0
	if clipped {
		factor = h.hold([]float64{0.37})[0]
		a.Clip = h.in([]float64{factor})
	}
	h.run("AdamFactored: "+what, func() { device.Do(h.d, device.AdamFactored{Adam: a, Factored: f}) })
	for i := range p {
		gi := factor * g[i]
		m[i] = beta1*m[i] + (1-beta1)*gi
		v[i] = beta2*v[i] + (1-beta2)*gi*gi
		if legacy {
			p[i] = p[i]*decay - step/inverse*m[i]/(math.Sqrt(v[i])+eps)
		} else {
			p[i] = p[i]*decay - step*m[i]/(math.Sqrt(v[i])*inverse+eps)
		}
	}
	h.equal("AdamFactored: parameters, "+what, a.P, p, h.tol.product)
	h.equal("AdamFactored: first moment, "+what, a.M, m, h.tol.product)
	h.equal("AdamFactored: second moment, "+what, a.V, v, h.tol.product)
	h.steady("AdamFactored: "+what, func() { device.Do(h.d, device.AdamFactored{Adam: a, Factored: f}) })
	h.release()
}
