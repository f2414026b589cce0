package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// testBatchNorm covers rows, segments, single values, padding rows and rows that are padding alone.
func testBatchNorm(h *harness) {
	for _, s := range [][4]int{{1, 1, 1, 0}, {1, 3, 1, 0}, {2, 5, 1, 0}, {7, 33, 1, 4}, {0, 3, 1, 5}, {70, 129, 1, 1},
		{300, 300, 1, 90},
		{3, 1100, 1, 0}, {2, 4100, 1, 2},
		{1, 1, 17, 0}, {3, 4, 36, 0}, {9, 36, 50, 0}, {5, 2000, 7, 0}} {
		for mode := range 4 {
			a := device.BatchNorm{Outer: s[0], C: s[1], Inner: s[2], Pads: s[3], Eps: 1e-5, Momentum: 0.1,
				Train: mode > 0}
			h.batchNorm(a, float64(pick(mode == 2, 100, 0)), mode == 3) // a mean far from zero
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

func (h *harness) batchNorm(a device.BatchNorm, offset float64, residual bool) {
	what := fmt.Sprintf("BatchNorm [%d, %d, %d] and %d rows, train %v, offset %v, residual %v", a.Outer, a.C, a.Inner,
		a.Pads, a.Train, offset, residual)
	size, n := a.Outer*a.C*a.Inner, float64(a.Outer*a.Inner+a.Pads)
	x, w, b, pad := h.normal(size, 1), h.normal(a.C, 1), h.normal(a.C, 1), h.normal(a.C, 1)
	rmean, rvar, dy := h.normal(a.C, 1), h.normal(a.C, 1), h.normal(size, 1)
	for i := range x {
		x[i] += offset
	}
	for c := range a.C {
		rvar[c], pad[c] = rvar[c]*rvar[c]+0.1, pad[c]+offset
	}
	h.hold(x)
	h.hold(rvar)
	h.hold(pad)
	mean, inv, y := make([]float64, a.C), make([]float64, a.C), make([]float64, size)
	newMean, newVar := append([]float64(nil), rmean...), append([]float64(nil), rvar...)
	dx, dw, db, dpad := make([]float64, size), make([]float64, a.C), make([]float64, a.C), make([]float64, a.C)
	largest := 0.0 // inverse deviation: how much rounding of x and of its mean is magnified
	for c := range a.C {
		each := func(f func(i int)) {
			for o := range a.Outer {
				for k := range a.Inner {
					f((o*a.C+c)*a.Inner + k)
				}
			}
		}
		mean[c] = rmean[c]
		variance := rvar[c]
		pads := float64(a.Pads)
		if a.Train {
			mean[c], variance = pads*pad[c], 0
			each(func(i int) { mean[c] += x[i] })
			mean[c] /= n
			each(func(i int) { variance += (x[i] - mean[c]) * (x[i] - mean[c]) })
			variance += pads * (pad[c] - mean[c]) * (pad[c] - mean[c])
			newMean[c] = 0.9*rmean[c] + 0.1*mean[c]
			newVar[c] = 0.9*rvar[c] + 0.1*variance/max(1, n-1)
			variance /= n
		}
		inv[c] = 1 / math.Sqrt(variance+a.Eps)
		largest = max(largest, inv[c])
		each(func(i int) {
			y[i] = w[c]*(x[i]-mean[c])*inv[c] + b[c]
			db[c] += dy[i]
			dw[c] += dy[i] * (x[i] - mean[c]) * inv[c]
		})
		u, v := 0.0, 0.0
		if a.Train {
			u, v = dw[c]/n, db[c]/n
		}
		each(func(i int) { dx[i] = w[c] * inv[c] * (dy[i] - v - (x[i]-mean[c])*inv[c]*u) })
		dpad[c] = pads * w[c] * inv[c] * (-v - (pad[c]-mean[c])*inv[c]*u)
	}
	if residual {
		plus := h.normal(size, 1)
		for i := range y {
			y[i] += plus[i]
		}
		a.Plus = h.in(plus)
	}
	rounding := 4 * h.tol.exact * (1 + offset) * max(1, largest) // of x - mean, in deviations
	a.X, a.Weight, a.Bias = h.in(x), h.in(w), h.in(b)
	a.RunningMean, a.RunningVar = h.place(rmean, a.Train), h.place(rvar, a.Train)
	if a.Pads > 0 {
		a.Pad = h.in(pad)
	}
	h.outputs(&a)
	h.run(what, func() { device.Do(h.d, a) })
	h.equal(what+": mean", a.Mean, mean, h.tol.exact)
	h.equal(what+": inverse deviation", a.InvStd, inv, rounding)
	h.equalTo(what+": y", a.Y, y, rounding*(1+magnitude(y)))
	h.equal(what+": running mean", a.RunningMean, newMean, h.tol.exact)
	h.equal(what+": running variance", a.RunningVar, newVar, h.tol.product*(1+offset))
	h.steady(what, func() { device.Do(h.d, a) })

	a.Mean, a.InvStd, a.DY, a.DX = h.in(mean), h.in(inv), h.in(dy), h.out(size)
	a.DWeight, a.DBias = h.out(a.C), h.out(a.C)
	if a.Pads > 0 {
		a.DPad = h.out(a.C)
	}
	h.run(what+" gradient", func() { device.DoGrad(h.d, a) })
	scale := (1 + magnitude(w)) * max(1, largest)
	h.equalTo(what+": dx", a.DX, dx, 4*rounding*scale)
	h.equalTo(what+": dweight", a.DWeight, dw, 2*rounding*math.Sqrt(n)*(1+magnitude(dw)/math.Sqrt(n)))
	h.equalTo(what+": dbias", a.DBias, db, h.tol.product*(1+magnitude(db)))
	if a.Pads > 0 {
		h.equalTo(what+": dpad", a.DPad, dpad, 4*rounding*scale*(1+magnitude(dpad)))
	}
	h.steady(what+" gradient", func() { device.DoGrad(h.d, a) })
	a.DX, a.DWeight, a.DPad = device.View{}, device.View{}, device.View{}
	h.run(what+" gradient of the bias", func() { device.DoGrad(h.d, a) })
	h.release()
}
