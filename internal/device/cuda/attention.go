package cuda

import "vsetrain/internal/device"

var (
	kernelAttention     = entryOf("attention")
	kernelAttentionGrad = entryOf("attention_grad")
)

// AdditiveAttention implements device.Attention.
func (d *dev) AdditiveAttention(a device.AttentionArgs) {
	const what = "AdditiveAttention"
	positive(what, a.B, a.R, a.H, a.E)
	keys, query := d.floats(what+" Keys", a.Keys, a.B*a.R*a.H), d.floats(what+" Query", a.Query, a.B*a.H)
	vector, values := d.floats(what+" Vector", a.Vector, a.H), d.floats(what+" Values", a.Values, a.B*a.R*a.E)
	weights, context := d.floats(what+" Weights", a.Weights, a.B*a.R), d.floats(what+" Context", a.Context, a.B*a.E)
	d.rows(kernelAttention, a.B, max(a.H, a.E)).ptr(weights, context, keys, query, vector, values).int(a.R, a.H, a.E)
}

// AdditiveAttentionGrad implements device.Attention.
func (d *dev) AdditiveAttentionGrad(a device.AttentionArgs) {
	const what = "AdditiveAttentionGrad"
	positive(what, a.B, a.R, a.H, a.E)
	keys, query := d.floats(what+" Keys", a.Keys, a.B*a.R*a.H), d.floats(what+" Query", a.Query, a.B*a.H)
	vector, values := d.floats(what+" Vector", a.Vector, a.H), d.floats(what+" Values", a.Values, a.B*a.R*a.E)
	weights, dContext := d.floats(what+" Weights", a.Weights, a.B*a.R), d.floats(what+" DContext", a.DContext, a.B*a.E)
	dQuery, dKeys := d.floats(what+" DQuery", a.DQuery, a.B*a.H), d.floats(what+" DKeys", a.DKeys, a.B*a.R*a.H)
	dValues, dVector := d.floats(what+" DValues", a.DValues, a.B*a.R*a.E), d.floats(what+" DVector", a.DVector, a.B*a.H)
	dots := d.need(scratchSums, 4*a.B*a.R)
	d.rows(kernelAttentionGrad, a.B, max(a.H, a.E)).ptr(dQuery, dKeys, dValues, dVector, dots, keys, query, vector, values, weights, dContext).int(a.R, a.H, a.E)
}
