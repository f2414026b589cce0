package cuda

import "vsetrain/internal/compute/device"

func (d *dev) AdditiveAttention(a device.AdditiveAttention) {
	scores := d.need(scratchSums, 4*a.B*a.R)
	d.warps("attention_scores", a.B*a.R).ptr(scores).of(a.Keys, a.Query, a.Vector).int(a.B, a.R, a.H)
	d.columns("attention", a.B, a.E).of(a.Weights, a.Context).ptr(scores).of(a.Values).int(a.R, a.E)
}

func (d *dev) AdditiveAttentionGrad(a device.AdditiveAttention) {
	dots := d.need(scratchSums, 4*a.B*a.R)
	d.warps("attention_values_grad", a.B*a.R).of(a.DValues).ptr(dots).of(a.Values, a.Weights, a.DContext).
		int(a.B, a.R, a.E)
	d.columns("attention_grad", a.B, a.H).of(a.DQuery, a.DKeys, a.DVector).ptr(dots).
		of(a.Keys, a.Query, a.Vector, a.Weights).int(a.R, a.H)
}

// columns begins the call of a kernel with a thread for each column of n items.
func (d *dev) columns(k string, n, width int) *command {
	const block = 128
	return d.start(k, block, (width+block-1)/block, n, 1)
}
