package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// scores draws a score matrix of multiples of 2⁻¹², so that differences are exact in every arithmetic; coarse ones are
// multiples of 1/8, with many ties and many hinges of exactly zero.
func scores(h *harness, n int, coarse bool) []float64 {
	s, parts := h.normal(n*n, 0.3), float64(pick(coarse, 8, 1<<12))
	for i := range s {
		s[i] = math.Round(s[i]*parts) / parts
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

func ofLoss(h *harness) bounds {
	return bounds{"": {rel: h.tol.exact}, "Loss": {rel: 10 * h.tol.exact}}
}

var lossSizes = []int{1, 2, 3, 5, 16, 37, 128, 150}

func testHinge(h *harness) {
	for _, n := range lossSizes {
		for mode := range 8 {
			s := scores(h, n, mode&1 > 0)
			if mode&1 > 0 && n > 2 { // pair 1: its only hinges that are not negative are exactly 0, at index 0
				for k := range n {
					s[n+k], s[k*n+1] = -2, -2
				}
				s[n+1], s[n], s[1] = 0.5, 0.25, 0.25
			}
			a := device.Hinge{N: n, Scores: h.in(s), Margin: 0.25, Max: mode&2 > 0,
				LossOut: h.lossOut(n, mode&1 > 0 || n%2 == 0)}
			if mode&4 > 0 {
				a.Margins, a.Margin = h.in(scores(h, n, mode&1 > 0)), math.NaN()
			}
			h.check(fmt.Sprintf("Hinge N=%d max=%v margins=%v ties=%v", n, a.Max, a.Margins.Present(), mode&1 > 0), &a,
				ofLoss(h))
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
			const k = 6
			v := h.normal(n*k, 1)
			for i := range n {
				if i%5 == 3 {
					clear(v[i*k : (i+1)*k]) // captions whose every term was filtered out
				}
			}
			gram, images, captions := make([]float64, n*n), make([]int32, n), make([]int32, n)
			for i := range n {
				images[i], captions[i] = int32(i/2), int32(i/3)
				for j := range n {
					for c := range k {
						gram[i*n+j] += v[i*k+c] * v[j*k+c]
					}
				}
			}
			a := device.SemanticMargins{N: n, Gram: h.in(gram), Alpha: 0.185, Lambda: 0.025, Cosine: mode&1 > 0,
				ZeroSameImage: mode&2 > 0}
			if a.ZeroSameImage {
				a.Images, a.Captions = h.inInts(images).View, h.inInts(captions).View
			}
			h.check(fmt.Sprintf("SemanticMargins N=%d cosine=%v same image=%v", n, a.Cosine, a.ZeroSameImage), &a,
				all(h.tol.exact))
			h.release()
		}
	}
}

func testUniversal(h *harness) {
	for _, n := range lossSizes {
		for mode := range 4 {
			s := scores(h, n, mode&1 > 0)
			for i := 0; i < n; i += 3 {
				s[i*n+i] = 0.75 + float64(i%2)/4 // easy positives, and saturated ones with a harder negative
				s[i*n+(i+1)%n] = 1.5 * float64(i%2)
			}
			h.check(fmt.Sprintf("UniversalWeighting N=%d ties=%v", n, mode&1 > 0), &device.UniversalWeighting{N: n,
				Scores: h.in(s), Margin: 0.25, Positive: [3]float64{0.5, -0.7, 0.2},
				Negative: [3]float64{0.03, -0.4, 0.9}, LossOut: h.lossOut(n, mode&2 > 0)}, ofLoss(h))
			h.release()
		}
	}
}

func testCrossEntropy(h *harness) {
	for n, lengths := range h.lengthCases() {
		for _, v := range []int{1, 5, 130, 2500} {
			crossEntropy(h, lengths, int(lengths[0])+1+n%3, v)
		}
	}
}

func crossEntropy(h *harness, lengths []int32, columns, v int) {
	rows := packed(lengths)
	labels := repeat(len(lengths)*columns, guardInt) // what no step predicts is never read
	mask := repeat(len(labels), guardInt)
	for _, r := range rows {
		labels[r[0]*columns+r[1]+1] = int32(h.rng.IntN(v))
		mask[r[0]*columns+r[1]+1] = int32(h.rng.IntN(4) / 2)
	}
	logits := h.normal(len(rows)*v, 3)
	const far = 60 // from 0
	logits[0] = far
	what := fmt.Sprintf("CrossEntropy of %v, %d classes", lengths, v)
	a := device.CrossEntropy{L: columns, V: v, Labels: h.inInts(labels), Mask: h.inInts(mask),
		Lengths: h.inInts(lengths), Scale: 0.25, Logits: h.more(logits, 1)} // more room than rows
	h.check(what, &a, bounds{"Norm": {rel: h.tol.product},
		"Loss": {abs: h.tol.product * (1 + far) * float64(len(rows))}})
	a.DLoss = h.in([]float64{1})
	h.back(what, &a, h.slopes())
	a.Logits, a.DLoss = h.inout(logits), h.in([]float64{-2})
	a.DLogits = a.Logits
	h.check(what+" gradient in place", &a, h.slopes())
	h.release()
}
