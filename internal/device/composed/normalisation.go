package composed

import (
	"math"

	"vsetrain/internal/device"
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
func (c *channels) total(a *device.BatchNormArgs) float64 { return float64(c.n + a.Pads) }

func (k normalisation) channels(a *device.BatchNormArgs) channels {
	c := channels{n: a.Outer * a.Inner}
	c.x = k.floats(a.C * c.n)
	k.in(c.x, a.X, a)
	if a.Pads > 0 {
		c.pad = k.floats(a.C)
		k.Copy(c.pad, a.Pad)
	}
	return c
}

// in reads values, out writes them.
func (k normalisation) in(dst, x device.View, a *device.BatchNormArgs) {
	if a.Outer > 0 {
		k.SwapAxes(dst, x, a.Outer, a.C, a.Inner)
	}
}

func (k normalisation) out(dst, x device.View, a *device.BatchNormArgs) {
	if a.Outer > 0 {
		k.SwapAxes(dst, x, a.C, a.Outer, a.Inner)
	}
}

// sum computes y [C] = the sums of x [C, n], pads included where they have values.
func (k normalisation) sum(y, x, pad device.View, c *channels, a *device.BatchNormArgs) {
	if c.n > 0 {
		k.sumRows(y, x, a.C, c.n)
	} else {
		k.Fill(y, 0)
	}
	if pad.Present() {
		k.combine(y, y, pad, 1, float64(a.Pads))
	}
}

// centre subtracts the mean.
func (k normalisation) centre(c *channels, mean device.View, a *device.BatchNormArgs) {
	defer k.give(k.use())
	if c.n > 0 {
		all := k.floats(a.C * c.n)
		k.spreadRows(all, mean, a.C, c.n)
		k.combine(c.x, c.x, all, 1, -1)
	}
	if c.pad.Present() {
		k.combine(c.pad, c.pad, mean, 1, -1)
	}
}

// scale multiplies x [C, n] by a factor for each channel.
func (k normalisation) scale(x, factors device.View, c *channels, a *device.BatchNormArgs) {
	if c.n > 0 {
		k.timesRows(x, x, factors, a.C, c.n)
	}
}

// BatchNorm implements device.Normalisation.
func (k normalisation) BatchNorm(a device.BatchNormArgs) {
	a.Views(k.check("BatchNorm"))
	defer k.give(k.use())
	c := k.channels(&a)
	mean, inv, variance := a.Mean, a.InvStd, k.floats(a.C)
	if a.Train {
		k.sum(mean, c.x, c.pad, &c, &a)
		k.times(mean, mean, 1/c.total(&a))
		k.centre(&c, mean, &a)
		k.variance(variance, &c, &a)
		k.remember(mean, variance, c.total(&a), &a)
	} else {
		k.Copy(mean, a.RunningMean)
		k.Copy(variance, a.RunningVar)
		k.centre(&c, mean, &a)
	}
	k.plus(inv, variance, a.Eps)
	k.apply(device.Sqrt, 0, inv, inv)
	k.apply(device.Reciprocal, 0, inv, inv)
	if c.n == 0 {
		return
	}
	factor, all := k.floats(a.C), k.floats(a.C*c.n)
	k.Multiply(factor, inv, a.Weight)
	k.scale(c.x, factor, &c, &a)
	k.spreadRows(all, a.Bias, a.C, c.n)
	k.combine(c.x, c.x, all, 1, 1)
	k.out(a.Y, c.x, &a)
	if y := a.Y; a.Plus.Present() {
		k.combine(y, y, a.Plus, 1, 1)
	}
}

// variance is the mean of the squares of what is centred.
func (k normalisation) variance(v device.View, c *channels, a *device.BatchNormArgs) {
	defer k.give(k.use())
	squares, pad := k.floats(a.C*c.n), device.View{}
	k.Multiply(squares, c.x, c.x)
	if c.pad.Present() {
		pad = k.floats(a.C)
		k.Multiply(pad, c.pad, c.pad)
	}
	k.sum(v, squares, pad, c, a)
	k.times(v, v, 1/c.total(a))
}

// remember moves the running statistics. Whether a variance is finite is seen by the host.
func (k normalisation) remember(mean, variance device.View, n float64, a *device.BatchNormArgs) {
	defer k.give(k.use())
	unbiased := 1.0
	if n > 1 {
		unbiased = n / (n - 1)
	}
	rm, rv := a.RunningMean, a.RunningVar
	m, v, dm, dv := k.host(a.C), k.host(a.C), k.host(a.C), k.host(a.C)
	for _, x := range [...]struct {
		to   []float64
		from device.View
	}{{m, rm}, {v, rv}, {dm, mean}, {dv, variance}} {
		k.DownloadDoubles(x.to, x.from)
	}
	for i := range m {
		if math.IsNaN(dv[i]) || math.IsInf(dv[i], 0) {
			continue
		}
		m[i] = (1-a.Momentum)*m[i] + a.Momentum*dm[i]
		v[i] = (1-a.Momentum)*v[i] + a.Momentum*dv[i]*unbiased
	}
	k.UploadDoubles(rm, m)
	k.UploadDoubles(rv, v)
}

// BatchNormGrad implements device.Normalisation. With x' the centred values, x̂ = x'·InvStd and k = Weight·InvStd,
// dx = k·(dy - Σ dy/n - x̂·Σ dy·x̂/n) with the statistics of the batch, and k·dy with the running ones.
func (k normalisation) BatchNormGrad(a device.BatchNormArgs) {
	a.Views(k.check("BatchNormGrad"))
	defer k.give(k.use())
	c := k.channels(&a)
	mean, inv := a.Mean, a.InvStd
	k.centre(&c, mean, &a)
	k.scale(c.x, inv, &c, &a)
	if c.pad.Present() {
		k.Multiply(c.pad, c.pad, inv)
	}
	dy, all := k.floats(a.C*c.n), k.floats(a.C*c.n)
	k.in(dy, a.DY, &a)
	db, dw, factor := k.floats(a.C), k.floats(a.C), k.floats(a.C)
	k.sum(db, dy, device.View{}, &c, &a)
	k.Multiply(all, dy, c.x)
	k.sum(dw, all, device.View{}, &c, &a)
	if a.DWeight.Present() {
		k.Copy(a.DWeight, dw)
	}
	if a.DBias.Present() {
		k.Copy(a.DBias, db)
	}
	k.Multiply(factor, inv, a.Weight)
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
func (k normalisation) padGrad(d, db, dw, factor device.View, c *channels, a *device.BatchNormArgs) {
	if !a.Train || a.Pads == 0 {
		k.Fill(d, 0)
		return
	}
	k.Multiply(d, c.pad, dw)
	k.combine(d, d, db, -float64(a.Pads), -float64(a.Pads))
	k.Multiply(d, d, factor)
}
