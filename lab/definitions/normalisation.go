package definitions

import (
	"math"

	"vsetrain/internal/compute/device"
)

// normalisation works on channels as rows: x [Outer, C, Inner] becomes [C, Outer·Inner].
type normalisation struct{ *Device }

// channels are the values of a batch normalisation, a row for each channel.
type channels struct {
	n int         // values of a channel
	x device.View // [C, n], less the mean
	// pad [C] is the value of the rows that are not stored, less the mean; absent without such rows.
	pad device.View
}

// total is the number of values in the statistics of a channel.
func (c *channels) total(a *device.BatchNorm) float64 { return float64(c.n + a.Pads) }

func (k normalisation) channels(a *device.BatchNorm) channels {
	c := channels{n: a.Outer * a.Inner}
	c.x = k.Floats(a.C * c.n)
	k.in(c.x, a.X, a)
	if a.Pads > 0 {
		c.pad = k.Floats(a.C)
		device.Do(k, device.Copy{Dst: c.pad, Src: a.Pad})
	}
	return c
}

// in reads values, out writes them.
func (k normalisation) in(dst, x device.View, a *device.BatchNorm) {
	if a.Outer > 0 {
		device.Do(k, device.SwapAxes{Dst: dst, X: x, A: a.Outer, B: a.C, Inner: a.Inner})
	}
}

func (k normalisation) out(dst, x device.View, a *device.BatchNorm) {
	if a.Outer > 0 {
		device.Do(k, device.SwapAxes{Dst: dst, X: x, A: a.C, B: a.Outer, Inner: a.Inner})
	}
}

// sum computes y [C] = the sums of x [C, n], pads included where they have values.
func (k normalisation) sum(y, x, pad device.View, c *channels, a *device.BatchNorm) {
	if c.n > 0 {
		k.sumRows(y, x, a.C, c.n)
	} else {
		device.Do(k, device.Fill{Dst: y})
	}
	if pad.Present() {
		k.combine(y, y, pad, 1, float64(a.Pads))
	}
}

// centre subtracts the mean.
func (k normalisation) centre(c *channels, mean device.View, a *device.BatchNorm) {
	defer k.Give(k.Use())
	if c.n > 0 {
		all := k.Floats(a.C * c.n)
		k.spreadRows(all, mean, a.C, c.n)
		k.combine(c.x, c.x, all, 1, -1)
	}
	if c.pad.Present() {
		k.combine(c.pad, c.pad, mean, 1, -1)
	}
}

// scale multiplies x [C, n] by a factor for each channel.
func (k normalisation) scale(x, factors device.View, c *channels, a *device.BatchNorm) {
	if c.n > 0 {
		k.timesRows(x, x, factors, a.C, c.n)
	}
}

func (k normalisation) BatchNorm(a device.BatchNorm) {
	defer k.Give(k.Use())
	c := k.channels(&a)
	mean, inv, variance := a.Mean, a.InvStd, k.Floats(a.C)
	if a.Train {
		k.sum(mean, c.x, c.pad, &c, &a)
		k.times(mean, mean, 1/c.total(&a))
		k.centre(&c, mean, &a)
		k.variance(variance, &c, &a)
		k.remember(mean, variance, c.total(&a), &a)
	} else {
		device.Do(k, device.Copy{Dst: mean, Src: a.RunningMean})
		device.Do(k, device.Copy{Dst: variance, Src: a.RunningVar})
		k.centre(&c, mean, &a)
	}
	k.plus(inv, variance, a.Eps)
	k.apply(device.Sqrt, 0, inv, inv)
	k.apply(device.Reciprocal, 0, inv, inv)
	if c.n == 0 {
		return
	}
	factor, all := k.Floats(a.C), k.Floats(a.C*c.n)
	device.Do(k, device.Multiply{Dst: factor, A: inv, B: a.Weight})
	k.scale(c.x, factor, &c, &a)
	k.spreadRows(all, a.Bias, a.C, c.n)
	k.combine(c.x, c.x, all, 1, 1)
	k.out(a.Y, c.x, &a)
	if a.Plus.Present() {
		k.combine(a.Y, a.Y, a.Plus, 1, 1)
	}
}

// variance is the mean of the squares of what is centred.
func (k normalisation) variance(v device.View, c *channels, a *device.BatchNorm) {
	defer k.Give(k.Use())
	squares, pad := k.Floats(a.C*c.n), device.View{}
	device.Do(k, device.Multiply{Dst: squares, A: c.x, B: c.x})
	if c.pad.Present() {
		pad = k.Floats(a.C)
		device.Do(k, device.Multiply{Dst: pad, A: c.pad, B: c.pad})
	}
	k.sum(v, squares, pad, c, a)
	k.times(v, v, 1/c.total(a))
}

// remember moves the running statistics of channels with a finite variance, on the host.
func (k normalisation) remember(mean, variance device.View, n float64, a *device.BatchNorm) {
	defer k.Give(k.Use())
	unbiased := 1.0
	if n > 1 {
		unbiased = n / (n - 1)
	}
	m, v, dm, dv := k.Host(a.C), k.Host(a.C), k.Host(a.C), k.Host(a.C)
	for _, x := range [...]struct {
		to   []float64
		from device.View
	}{{m, a.RunningMean}, {v, a.RunningVar}, {dm, mean}, {dv, variance}} {
		k.DownloadDoubles(x.to, x.from)
	}
	for i := range m {
		if math.IsNaN(dv[i]) || math.IsInf(dv[i], 0) {
			continue
		}
		m[i] = (1-a.Momentum)*m[i] + a.Momentum*dm[i]
		v[i] = (1-a.Momentum)*v[i] + a.Momentum*dv[i]*unbiased
	}
	k.UploadDoubles(a.RunningMean, m)
	k.UploadDoubles(a.RunningVar, v)
}

// BatchNormGrad: with x' the centred values, x̂ = x'·InvStd and k = Weight·InvStd,
// dx = k·(dy - Σ dy/n - x̂·Σ dy·x̂/n) with the statistics of the batch, and k·dy with the running ones.
func (k normalisation) BatchNormGrad(a device.BatchNorm) {
	defer k.Give(k.Use())
	c, inv := k.channels(&a), a.InvStd
	k.centre(&c, a.Mean, &a)
	k.scale(c.x, inv, &c, &a)
	if c.pad.Present() {
		device.Do(k, device.Multiply{Dst: c.pad, A: c.pad, B: inv})
	}
	dy, all := k.Floats(a.C*c.n), k.Floats(a.C*c.n)
	k.in(dy, a.DY, &a)
	db, dw, factor := k.Floats(a.C), k.Floats(a.C), k.Floats(a.C)
	k.sum(db, dy, device.View{}, &c, &a)
	device.Do(k, device.Multiply{Dst: all, A: dy, B: c.x})
	k.sum(dw, all, device.View{}, &c, &a)
	if a.DWeight.Present() {
		device.Do(k, device.Copy{Dst: a.DWeight, Src: dw})
	}
	if a.DBias.Present() {
		device.Do(k, device.Copy{Dst: a.DBias, Src: db})
	}
	device.Do(k, device.Multiply{Dst: factor, A: inv, B: a.Weight})
	if a.Train {
		k.times(db, db, 1/c.total(&a))
		k.times(dw, dw, 1/c.total(&a))
		if c.n > 0 {
			k.spreadRows(all, db, a.C, c.n)
			k.combine(dy, dy, all, 1, -1)
			k.timesRows(all, c.x, dw, a.C, c.n)
			k.combine(dy, dy, all, 1, -1)
		}
	}
	if a.DX.Present() {
		k.scale(dy, factor, &c, &a)
		k.out(a.DX, dy, &a)
	}
	if a.DPad.Present() {
		k.padGrad(a.DPad, db, dw, factor, &c, &a)
	}
}

// padGrad is the gradient of the rows that are not stored, through the statistics alone.
func (k normalisation) padGrad(d, db, dw, factor device.View, c *channels, a *device.BatchNorm) {
	if !a.Train || a.Pads == 0 {
		device.Do(k, device.Fill{Dst: d})
		return
	}
	device.Do(k, device.Multiply{Dst: d, A: c.pad, B: dw})
	k.combine(d, d, db, -float64(a.Pads), -float64(a.Pads))
	device.Do(k, device.Multiply{Dst: d, A: d, B: factor})
}
