package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// lossResult is what a loss kernel must write.
type lossResult struct {
	loss                   [3]float64
	grad                   []float64
	hardCaption, hardImage []int32
	costCaption, costImage []float64
}

func newLossResult(n int) *lossResult {
	return &lossResult{grad: make([]float64, n*n), hardCaption: make([]int32, n), hardImage: make([]int32, n),
		costCaption: make([]float64, n), costImage: make([]float64, n)}
}

// referenceHinge follows fartashf/vsepp (model.py: ContrastiveLoss) literally: both cost matrices, then their maxima or
// sums. sum adds in the type of the device, so that exact zeros and ties are those of the device.
func referenceHinge(n int, s []float64, margin func(i, j int) float64, max bool,
	sum func(a, b float64) float64) *lossResult {
	r := newLossResult(n)
	for side := range 2 {
		hard, costs := r.hardCaption, r.costCaption
		if side == 1 {
			hard, costs = r.hardImage, r.costImage
		}
		for anchor := range n {
			cell := func(k int) (i, j int) {
				if side == 0 {
					return anchor, k
				}
				return k, anchor
			}
			raw := func(k int) float64 {
				i, j := cell(k)
				return sum(sum(margin(i, j), s[i*n+j]), -s[anchor*n+anchor])
			}
			flow := func(k int) { // the gradient of one cost
				if i, j := cell(k); k != anchor && raw(k) >= 0 {
					r.grad[i*n+j]++
					r.grad[anchor*n+anchor]--
				}
			}
			best := 0
			cost := make([]float64, n)
			for k := range n {
				if k != anchor && raw(k) > 0 {
					cost[k] = raw(k)
				}
				if cost[k] > cost[best] {
					best = k
				}
			}
			hard[anchor], costs[anchor] = int32(best), cost[best]
			if max {
				r.loss[1+side] += cost[best]
				flow(best)
				continue
			}
			for k := range n {
				r.loss[1+side] += cost[k]
				flow(k)
			}
		}
	}
	r.loss[0] = r.loss[1] + r.loss[2]
	return r
}

// sum adds in the type of the device.
func (h *harness) sum(a, b float64) float64 {
	if h.d.Wide() {
		return a + b
	}
	return float64(float32(a) + float32(b))
}

// scores draws a score matrix with many ties and many hinges of exactly zero: multiples of 1/8.
func (h *harness) scores(n int, coarse bool) []float64 {
	s := h.normal(n*n, 0.3)
	if coarse {
		for i := range s {
			s[i] = math.Round(s[i]*8) / 8
		}
	}
	return s
}

// lossOut places the outputs of a loss.
func (h *harness) lossOut(n int, bookkeeping bool) device.LossOut {
	o := device.LossOut{Loss: h.out(3), Grad: h.out(n * n)}
	if bookkeeping {
		o.HardCaption, o.HardImage, o.CostCaption, o.CostImage = h.outInts(n), h.outInts(n), h.out(n), h.out(n)
	}
	return o
}

func (h *harness) equalLoss(what string, o device.LossOut, r *lossResult) {
	h.t.Helper()
	h.equal(what+": loss", o.Loss, r.loss[:], 10*h.tol.exact)
	h.equal(what+": gradient", o.Grad, r.grad, h.tol.exact)
	if o.HardCaption.Present() {
		h.equalInts(what+": hardest caption", o.HardCaption, r.hardCaption)
		h.equalInts(what+": hardest image", o.HardImage, r.hardImage)
		h.equal(what+": cost of the caption", o.CostCaption, r.costCaption, h.tol.exact)
		h.equal(what+": cost of the image", o.CostImage, r.costImage, h.tol.exact)
	}
}

var lossSizes = []int{1, 2, 3, 5, 16, 37, 128, 150}

func testHinge(h *harness) {
	for _, n := range lossSizes {
		for mode := range 8 {
			s := h.scores(n, mode&1 > 0)
			const constant = 0.25
			if mode&1 > 0 && n > 2 { // pair 1: its only hinges that are not negative are exactly 0, at index 0
				for k := range n {
					s[n+k], s[k*n+1] = -2, -2
				}
				s[n+1], s[n], s[1] = 0.5, 0.25, 0.25
			}
			margin := func(i, j int) float64 { return constant }
			a := device.Hinge{N: n, Scores: h.in(s), Margin: constant, Max: mode&2 > 0,
				LossOut: h.lossOut(n, mode&1 > 0 || n%2 == 0)}
			if mode&4 > 0 {
				m := h.scores(n, mode&1 > 0)
				a.Margins, a.Margin = h.in(m), math.NaN()
				margin = func(i, j int) float64 { return m[i*n+j] }
			}
			what := fmt.Sprintf("Hinge N=%d max=%v margins=%v ties=%v", n, a.Max, a.Margins.Present(), mode&1 > 0)
			h.run(what, func() { device.Do(h.d, a) })
			h.equalLoss(what, a.LossOut, referenceHinge(n, s, margin, a.Max, h.sum))
			h.steady(what, func() { device.Do(h.d, a) })
			h.release()
		}
	}
	// NaN in the scores must reach the loss, wherever it stands.
	for at := range 9 {
		s := h.normal(9, 0.3)
		s[at] = math.NaN()
		for _, most := range []bool{false, true} {
			a := device.Hinge{N: 3, Scores: h.in(s), Margin: 0.2, Max: most, LossOut: h.lossOut(3, false)}
			h.run("Hinge of NaN", func() { device.Do(h.d, a) })
			for part, v := range h.read(a.Loss) {
				if !math.IsNaN(v) {
					h.errorf("Hinge max=%v: NaN at %d became %v in part %d of the loss", most, at, v, part)
				}
			}
			h.release()
		}
	}
}

func testMargins(h *harness) {
	for _, n := range lossSizes {
		for mode := range 4 {
			const alpha, lambda, k = 0.185, 0.025, 6
			v := h.normal(n*k, 1)
			for i := range n {
				if i%5 == 3 {
					clear(v[i*k : (i+1)*k]) // captions whose every term was filtered out
				}
			}
			gram := make([]float64, n*n)
			images, captions := make([]int32, n), make([]int32, n)
			for i := range n {
				images[i], captions[i] = int32(i/2), int32(i/3)
				for j := range n {
					for c := range k {
						gram[i*n+j] += v[i*k+c] * v[j*k+c]
					}
				}
			}
			h.hold(gram)
			a := device.SemanticMargins{N: n, Gram: h.in(gram), Alpha: alpha, Lambda: lambda, Cosine: mode&1 > 0,
				ZeroSameImage: mode&2 > 0}
			if a.ZeroSameImage {
				a.Images, a.Captions = h.inInts(images).View, h.inInts(captions).View
			}
			want := make([]float64, n*n)
			for i := range n {
				row := gram[i*n : (i+1)*n]
				d := row[0]
				for _, g := range row {
					d = max(d, g)
				}
				if d == 0 {
					d = 1
				}
				for j := range n {
					sim := row[j] / d
					if a.Cosine {
						if sim = 0; gram[i*n+i] > 0 && gram[j*n+j] > 0 {
							sim = row[j] / math.Sqrt(gram[i*n+i]*gram[j*n+j])
						}
					}
					if want[i*n+j] = alpha + lambda*sim; i == j || a.ZeroSameImage && images[i] == captions[j] {
						want[i*n+j] = 0
					}
				}
			}
			what := fmt.Sprintf("SemanticMargins N=%d cosine=%v same image=%v", n, a.Cosine, a.ZeroSameImage)
			h.outputs(&a)
			h.run(what, func() { device.Do(h.d, a) })
			h.equal(what, a.Margins, want, h.tol.exact)
			h.steady(what, func() { device.Do(h.d, a) })
			h.release()
		}
	}
}

// referenceUniversal follows wayne980/PolyLoss anchor by anchor.
func referenceUniversal(a device.UniversalWeighting, s []float64, sum func(a, b float64) float64) *lossResult {
	n := a.N
	r := newLossResult(n)
	for side := range 2 {
		hard, costs := r.hardCaption, r.costCaption
		if side == 1 {
			hard, costs = r.hardImage, r.costImage
		}
		for anchor := range n {
			p := s[anchor*n+anchor]
			if !(p < 1-1e-5) {
				continue
			}
			best, cell := -1, 0
			for k := range n {
				at := anchor*n + k
				if side == 1 {
					at = k*n + anchor
				}
				if k != anchor && sum(s[at], a.Margin) > p && (best < 0 || s[at] > s[cell]) {
					best, cell = k, at
				}
			}
			if best < 0 {
				continue
			}
			v := s[cell]
			if f := a.Positive[0] + a.Positive[1]*p + a.Positive[2]*p*p; f >= 0 {
				r.loss[1+side] += f / float64(n)
				r.grad[anchor*n+anchor] += (a.Positive[1] + 2*a.Positive[2]*p) / float64(n)
			}
			hard[anchor] = int32(best)
			if f := a.Negative[0] + a.Negative[1]*v + a.Negative[2]*v*v; f >= 0 {
				r.loss[1+side] += f / float64(n)
				r.grad[cell] += (a.Negative[1] + 2*a.Negative[2]*v) / float64(n)
				costs[anchor] = f
			}
		}
	}
	r.loss[0] = r.loss[1] + r.loss[2]
	return r
}

func testUniversal(h *harness) {
	for _, n := range lossSizes {
		for mode := range 4 {
			s := h.scores(n, mode&1 > 0)
			for i := 0; i < n; i += 3 {
				s[i*n+i] = 0.75 + float64(i%2)/4 // easy positives, and saturated ones with a harder negative
				s[i*n+(i+1)%n] = 1.5 * float64(i%2)
			}
			a := device.UniversalWeighting{N: n, Scores: h.in(s), Margin: 0.25, Positive: [3]float64{0.5, -0.7, 0.2},
				Negative: [3]float64{0.03, -0.4, 0.9}, LossOut: h.lossOut(n, mode&2 > 0)}
			what := fmt.Sprintf("UniversalWeighting N=%d ties=%v", n, mode&1 > 0)
			h.run(what, func() { device.Do(h.d, a) })
			h.equalLoss(what, a.LossOut, referenceUniversal(a, s, h.sum))
			h.steady(what, func() { device.Do(h.d, a) })
			h.release()
		}
	}
}
