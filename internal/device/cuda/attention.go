package cuda

import "vsetrain/internal/device"

var (
	kernelAttention     = entryOf("attention")
	kernelAttentionGrad = entryOf("attention_grad")
)

// AdditiveAttention implements device.Attention.
func (d *dev) AdditiveAttention(a device.AttentionArgs) {
	a.Views(d.check("AdditiveAttention"))
	keys, query := d.pointer(a.Keys), d.pointer(a.Query)
	vector, values := d.pointer(a.Vector), d.pointer(a.Values)
	weights, context := d.pointer(a.Weights), d.pointer(a.Context)
	d.rows(kernelAttention, a.B, max(a.H, a.E)).ptr(weights, context, keys, query, vector, values).int(a.R, a.H, a.E)
}

// AdditiveAttentionGrad implements device.Attention.
func (d *dev) AdditiveAttentionGrad(a device.AttentionArgs) {
	a.Views(d.check("AdditiveAttentionGrad"))
	keys, query := d.pointer(a.Keys), d.pointer(a.Query)
	vector, values := d.pointer(a.Vector), d.pointer(a.Values)
	weights, dContext := d.pointer(a.Weights), d.pointer(a.DContext)
	dQuery, dKeys := d.pointer(a.DQuery), d.pointer(a.DKeys)
	dValues, dVector := d.pointer(a.DValues), d.pointer(a.DVector)
	dots := d.need(scratchSums, 4*a.B*a.R)
	d.rows(kernelAttentionGrad, a.B, max(a.H, a.E)).ptr(dQuery, dKeys, dValues, dVector, dots, keys, query, vector,
		values, weights, dContext).int(a.R, a.H, a.E)
}
