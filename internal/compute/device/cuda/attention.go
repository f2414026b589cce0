package cuda

import "vsetrain/internal/compute/device"

var (
	kernelAttentionScores = entryOf("attention_scores")
	kernelAttention       = entryOf("attention")
	kernelAttentionValues = entryOf("attention_values_grad")
	kernelAttentionGrad   = entryOf("attention_grad")
)

// AdditiveAttention computes that kernel.
func (d *dev) AdditiveAttention(a device.AdditiveAttention) {
	keys, query := d.pointer(a.Keys), d.pointer(a.Query)
	vector, values := d.pointer(a.Vector), d.pointer(a.Values)
	weights, context := d.pointer(a.Weights), d.pointer(a.Context)
	scores := d.need(scratchSums, 4*a.B*a.R)
	d.warps(kernelAttentionScores, a.B*a.R).ptr(scores, keys, query, vector).int(a.B, a.R, a.H)
	d.columns(kernelAttention, a.B, a.E).ptr(weights, context, scores, values).int(a.R, a.E)
}

// AdditiveAttentionGrad computes that kernel.
func (d *dev) AdditiveAttentionGrad(a device.AdditiveAttention) {
	keys, query := d.pointer(a.Keys), d.pointer(a.Query)
	vector, values := d.pointer(a.Vector), d.pointer(a.Values)
	weights, dContext := d.pointer(a.Weights), d.pointer(a.DContext)
	dQuery, dKeys := d.pointer(a.DQuery), d.pointer(a.DKeys)
	dValues, dVector := d.pointer(a.DValues), d.pointer(a.DVector)
	dots := d.need(scratchSums, 4*a.B*a.R)
	d.warps(kernelAttentionValues, a.B*a.R).ptr(dValues, dots, values, weights, dContext).int(a.B, a.R, a.E)
	d.columns(kernelAttentionGrad, a.B, a.H).ptr(dQuery, dKeys, dVector, dots, keys, query, vector, weights).
		int(a.R, a.H)
}

// columns begins a kernel with a thread for each column of n items.
func (d *dev) columns(k kernel, n, width int) *command {
	const block = 128
	return d.start(k, block, (width+block-1)/block, n, 1)
}
