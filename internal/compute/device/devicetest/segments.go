package devicetest

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

func testSegments(h *harness) {
	for _, counts := range h.lengthCases() {
		for _, d := range []int{1, 7, 64} {
			h.segments(counts, d)
			h.gatedPool(counts, d)
		}
	}
}

func (h *harness) segments(counts []int32, d int) {
	first := captionsOf(counts)
	b, rows := len(counts), first[len(counts)]
	x := h.normal(rows*d, 1)
	means, unpacked := make([]float64, b*d), make([]float64, rows*d)
	for i := range b {
		for r := first[i]; r < first[i+1]; r++ {
			for k := range d {
				means[i*d+k] += x[r*d+k] / float64(counts[i])
			}
		}
	}
	for p, at := range packed(counts) {
		copy(unpacked[(first[at[0]]+at[1])*d:], x[p*d:(p+1)*d])
	}
	what := fmt.Sprintf("segments of %v rows of %d", counts, d)
	n, in, out, back := h.inInts(counts), h.in(x), h.out(b*d), h.out(rows*d)
	h.run(what, func() { device.Do(h.d, device.SegmentMeans{Means: out, Rows: in, Counts: n, D: d}) })
	h.equal(what+": means", out, means, h.tol.product)
	h.steady(what, func() { device.Do(h.d, device.SegmentMeans{Means: out, Rows: in, Counts: n, D: d}) })
	h.run(what, func() { device.Do(h.d, device.UnpackWords{Dst: back, Src: in, Lengths: n, D: d}) })
	h.equal(what+": unpacked", back, unpacked, 0)
	again := h.out(rows * d)
	h.run(what, func() {
		device.Do(h.d, device.UnpackWords{Dst: again, Src: h.in(unpacked), Lengths: n, D: d, Back: true})
	})
	h.equal(what+": packed again", again, x, 0)
	spread := make([]float64, rows*d)
	for i := range b {
		for r := first[i]; r < first[i+1]; r++ {
			for k := range d {
				spread[r*d+k] = means[i*d+k] / float64(counts[i])
			}
		}
	}
	h.run(what, func() { device.DoGrad(h.d, device.SegmentMeans{Rows: again, Means: out, Counts: n, D: d}) })
	h.equal(what+": gradient of means", again, spread, h.tol.product)
	h.release()
}

func (h *harness) gatedPool(counts []int32, d int) {
	first := captionsOf(counts)
	b, rows := len(counts), first[len(counts)]
	l, x, g, w := h.normal(rows*d, 1), h.normal(rows*d, 1), h.normal(b*d, 1), h.normal(d, 0.5)
	weights := make([]float64, rows)
	forward := func() []float64 {
		out := make([]float64, b*d)
		for i := range b {
			e := make([]float64, counts[i])
			for r := range e {
				e[r] = sum(d, func(k int) float64 { return w[k] * l[(first[i]+r)*d+k] * g[i*d+k] })
			}
			for r, v := range softmaxOf(e) {
				weights[first[i]+r] = v
				for k := range d {
					out[i*d+k] += v * x[(first[i]+r)*d+k]
				}
			}
		}
		return out
	}
	what := fmt.Sprintf("GatedPool of %v rows of %d", counts, d)
	want := forward()
	a := device.GatedPool{D: d, Counts: h.inInts(counts), L: h.in(l), X: h.in(x), G: h.in(g), W: h.in(w)}
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what, a.Out, want, 10*h.tol.product)
	h.equal(what+": weights", a.Weights, weights, 10*h.tol.product)
	h.steady(what, func() { device.Do(h.d, a) })
	dOut := h.normal(b*d, 1)
	loss := func() float64 { return inner(forward(), dOut) }
	a.Weights, a.DOut = h.in(append([]float64(nil), weights...)), h.in(dOut)
	h.gradOutputs(&a)
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.equalDifferences(what+": DL", l, a.DL, usual, loss)
	h.equalDifferences(what+": DG", g, a.DG, usual, loss)
	h.equalDifferences(what+": DX", x, a.DX, usual, loss)
	total := make([]float64, d)
	for i, v := range h.read(a.DW) {
		total[i%d] += v
	}
	h.equalDifferences(what+": DW", w, h.in(total), usual, loss)
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	h.release()
}
