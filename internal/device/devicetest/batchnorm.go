package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/device"
)

func testBatchNorm(h *harness) {
	for _, s := range [][3]int{{1, 3, 1}, {2, 1, 1}, {3, 5, 1}, {37, 16, 1}, {300, 130, 1}, {1, 1, 40}, {5, 36, 7}, {3, 4, 129}, {2, 3, 2}} {
		for _, train := range []bool{true, false} {
			h.batchNorm(device.BatchNormArgs{Outer: s[0], C: s[1], Inner: s[2], Train: train, Eps: 1e-5, Momentum: 0.1})
			h.batchNormGrad(device.BatchNormArgs{Outer: s[0], C: s[1], Inner: s[2], Train: train, Eps: 1e-3, Momentum: 0.1})
		}
	}
}

// normCase is the definition of BatchNormArgs on the host.
type normCase struct {
	a                             device.BatchNormArgs
	x, weight, bias, mean, vari   []float64 // mean and vari are the running statistics
	y, batchMean, invStd, run, rv []float64
}

func (h *harness) normCase(a device.BatchNormArgs) *normCase {
	n := &normCase{a: a, x: h.normal(a.Outer*a.C*a.Inner, 2), weight: h.normal(a.C, 1), bias: h.normal(a.C, 1), mean: h.normal(a.C, 1)}
	for i := range n.x {
		n.x[i] += float64(i / a.Inner % a.C % 7) // channels far from 0
	}
	h.hold(n.x)
	for range a.C {
		n.vari = append(n.vari, 0.5+math.Abs(h.rng.Norm()))
	}
	h.hold(n.vari)
	return n
}

func (n *normCase) forward() {
	a := n.a
	n.y, n.batchMean, n.invStd = make([]float64, len(n.x)), make([]float64, a.C), make([]float64, a.C)
	n.run, n.rv = append([]float64(nil), n.mean...), append([]float64(nil), n.vari...)
	count := float64(a.Outer * a.Inner)
	for c := range a.C {
		mean, variance := n.mean[c], n.vari[c]
		if a.Train {
			mean, variance = 0, 0
			n.each(c, func(i int) { mean += n.x[i] / count })
			n.each(c, func(i int) { variance += (n.x[i] - mean) * (n.x[i] - mean) / count })
			n.run[c] = 0.9*n.mean[c] + 0.1*mean
			n.rv[c] = 0.9*n.vari[c] + 0.1*variance*count/max(1, count-1)
		}
		n.batchMean[c], n.invStd[c] = mean, 1/math.Sqrt(variance+a.Eps)
		n.each(c, func(i int) { n.y[i] = n.weight[c]*(n.x[i]-mean)*n.invStd[c] + n.bias[c] })
	}
}

// each calls f with the index of every value of a channel.
func (n *normCase) each(c int, f func(i int)) {
	for o := range n.a.Outer {
		for k := range n.a.Inner {
			f((o*n.a.C+c)*n.a.Inner + k)
		}
	}
}

func (h *harness) batchNorm(a device.BatchNormArgs) {
	what := fmt.Sprintf("BatchNorm [%d, %d, %d] train=%v", a.Outer, a.C, a.Inner, a.Train)
	n := h.normCase(a)
	n.forward()
	a.X, a.Weight, a.Bias = h.in(n.x), h.in(n.weight), h.in(n.bias)
	if a.RunningMean, a.RunningVar = h.in(n.mean), h.in(n.vari); a.Train {
		a.RunningMean, a.RunningVar = h.inout(n.mean), h.inout(n.vari)
	}
	a.Y, a.Mean, a.InvStd = h.out(len(n.x)), h.out(a.C), h.out(a.C)
	h.run(what, func() { h.d.BatchNorm(a) })
	// The normalisation enlarges the rounding of the mean by s.
	grown := 1 + magnitude(n.invStd)*magnitude(n.weight)*magnitude(n.x)
	h.equal(what+": mean", a.Mean, n.batchMean, h.tol.product)
	h.equal(what+": 1/σ", a.InvStd, n.invStd, h.tol.product*(1+magnitude(n.invStd)))
	h.equalTo(what+": y", a.Y, n.y, h.tol.product*grown*(1+magnitude(n.invStd)))
	h.equal(what+": running mean", a.RunningMean, n.run, h.tol.product)
	h.equal(what+": running variance", a.RunningVar, n.rv, h.tol.product)
	h.steady(what, func() { h.d.BatchNorm(a) })
	h.release()
}

// batchNormGrad compares with central differences of the definition along random directions.
func (h *harness) batchNormGrad(a device.BatchNormArgs) {
	what := fmt.Sprintf("BatchNormGrad [%d, %d, %d] train=%v", a.Outer, a.C, a.Inner, a.Train)
	n := h.normCase(a)
	dy := h.normal(len(n.x), 1)
	n.forward()
	a.X, a.Weight, a.Mean, a.InvStd, a.DY = h.in(n.x), h.in(n.weight), h.in(n.batchMean), h.in(n.invStd), h.in(dy)
	a.DX, a.DWeight, a.DBias = h.out(len(n.x)), h.out(a.C), h.out(a.C)
	h.run(what, func() { h.d.BatchNormGrad(a) })
	loss := func() (s float64) {
		n.forward()
		for i, v := range n.y {
			s += v * dy[i]
		}
		return s
	}
	h.slopes(what+": DX", n.x, a.DX, loss)
	h.slopes(what+": DWeight", n.weight, a.DWeight, loss)
	h.slopes(what+": DBias", n.bias, a.DBias, loss)
	h.steady(what, func() { h.d.BatchNormGrad(a) })
	a.DX, a.DBias = device.View{}, device.View{}
	h.run(what+" of the weight alone", func() { h.d.BatchNormGrad(a) })
	h.release()
}

// slopes compares a gradient with central differences of loss along random directions of value.
func (h *harness) slopes(what string, value []float64, grad device.View, loss func() float64) {
	h.t.Helper()
	got := h.read(grad)
	if h.record != nil {
		*h.record = append(*h.record, got...)
	}
	if h.short {
		return
	}
	const step = 1e-5
	saved := append([]float64(nil), value...)
	direction := make([]float64, len(value))
	for range 3 {
		for i := range direction {
			direction[i] = h.rng.Norm()
		}
		along := func(s float64) float64 {
			for i := range saved {
				value[i] = saved[i] + s*direction[i]
			}
			return loss()
		}
		want := (along(step) - along(-step)) / (2 * step)
		copy(value, saved)
		var slope, size float64
		for i := range direction {
			slope += got[i] * direction[i]
			size += got[i] * got[i]
		}
		if limit := h.tol.deriv * (math.Sqrt(size) + 1e-2); !(math.Abs(slope-want) <= limit) {
			h.t.Errorf("%s along a random direction is %.9g, want %.9g (allowed %.2g)", what, slope, want, limit)
		}
	}
}
