package definitions

import "vsetrain/internal/compute/device"

type attention struct{ *Device }

// keys computes tanh(Keys + Query) of all regions.
func (k attention) keys(t device.View, a *device.AdditiveAttention) {
	k.spreadSegments(t, a.Query, k.Each(a.B, a.R), a.H)
	k.combine(t, t, a.Keys, 1, 1)
	device.Do(k, device.Activate{F: device.Tanh, Y: t, X: t})
}

func (k attention) AdditiveAttention(a device.AdditiveAttention) {
	defer k.Give(k.Use())
	n, weights := a.B*a.R, a.Weights
	t := k.Floats(n * a.H)
	k.keys(t, &a)
	device.Do(k, device.Gemm{TransB: true, M: n, N: 1, K: a.H, Alpha: 1, A: t, B: a.Vector, C: weights, Exact: true})
	k.softmax(weights, weights, 1, alongRows(a.B, a.R))
	v := k.Floats(n * a.E)
	k.timesRows(v, a.Values, weights, n, a.E)
	k.sumSegments(a.Context, v, k.Each(a.B, a.R), a.E)
}

func (k attention) AdditiveAttentionGrad(a device.AdditiveAttention) {
	defer k.Give(k.Use())
	n, weights, counts := a.B*a.R, a.Weights, k.Each(a.B, a.R)
	dContext, de, v := k.Floats(n*a.E), k.Floats(n), k.Floats(n*a.E)
	k.spreadSegments(dContext, a.DContext, counts, a.E)
	k.dotRows(de, dContext, a.Values, n, a.E)
	k.softmaxGrad(de, weights, de, 1, alongRows(a.B, a.R))
	k.timesRows(v, dContext, weights, n, a.E)
	k.combine(a.DValues, a.DValues, v, 1, 1)
	t, x, sums := k.Floats(n*a.H), k.Floats(n*a.H), k.Floats(a.B*a.H)
	k.keys(t, &a)
	k.timesRows(x, t, de, n, a.H)
	k.sumSegments(sums, x, counts, a.H)
	k.combine(a.DVector, a.DVector, sums, 1, 1)
	device.Do(k, device.Gemm{M: n, N: a.H, K: 1, Alpha: 1, A: de, B: a.Vector, C: x, Exact: true})
	device.DoGrad(k, device.Activate{F: device.Tanh, DX: x, Y: t, DY: x})
	k.sumSegments(a.DQuery, x, counts, a.H)
	k.combine(a.DKeys, a.DKeys, x, 1, 1)
}

type likelihood struct{ *Device }

// words returns the indices of the labels of packed rows among the logits, and the weights of their losses.
func (k likelihood) words(a *device.CrossEntropy) (at device.Ints, weights device.View, rows int) {
	p := a.Lengths.Packing()
	rows = p.Rows()
	at = k.Numbers(rows)
	w := k.Host(rows)
	for t := range p.Steps() {
		for b := range p.Active(t) {
			row, label := p.Start(t)+b, b*a.L+t+1
			at.Host[row] = int32(row*a.V) + a.Labels.Host[label]
			w[row] = a.Scale * float64(a.Mask.Host[label])
		}
	}
	return k.Send(at), k.Upload(w), rows
}

func (k likelihood) CrossEntropy(a device.CrossEntropy) {
	defer k.Give(k.Use())
	at, weights, n := k.words(&a)
	logits, norm := a.Logits, a.Norm
	x, all, top := k.Floats(n*a.V), k.Floats(n*a.V), k.Floats(n)
	device.Do(k, device.Reduce{Max: true, N: n, D: a.V, X: logits, Y: top, Index: k.Numbers(n).View})
	k.spreadRows(all, top, n, a.V)
	k.combine(x, logits, all, 1, -1)
	k.apply(device.Exp, 0, x, x)
	k.sumRows(norm, x, n, a.V)
	k.apply(device.Log, 0, norm, norm)
	k.combine(norm, norm, top, 1, 1)
	k.gather(top, logits, 1, at)
	k.combine(top, norm, top, 1, -1)
	k.dotRows(a.Loss, top, weights, 1, n)
}

func (k likelihood) CrossEntropyGrad(a device.CrossEntropy) {
	defer k.Give(k.Use())
	at, weights, n := k.words(&a)
	x, all := a.DLogits, k.Floats(n*a.V)
	k.spreadRows(all, a.Norm, n, a.V)
	k.combine(x, a.Logits, all, 1, -1)
	k.apply(device.Exp, 0, x, x)
	k.scatter(all, k.Filled(n, 1), 1, at)
	k.combine(x, x, all, 1, -1)
	device.Do(k, device.Scale{Dst: weights, X: weights, Factor: a.DLoss})
	k.timesRows(x, x, weights, n, a.V)
}
