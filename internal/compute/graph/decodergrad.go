package graph

import "vsetrain/internal/compute/device"

// decoderGradient is the backward op of AttentionGRU.
type decoderGradient struct {
	*decoder
	op                                                   *Op
	dStates                                              int // argument
	dX, dRegions, dInitial, dAttend, dAttendBias, dScore int // results
	dWIH, dWHH, dBIH, dBHH                               int
	dQuery, dKeys, dVector, biases                       int // scratch memory
}

func newDecoderGradient(k *decoder, op *Op, rows int, dStates *Node) *decoderGradient {
	b := &decoderGradient{decoder: k, op: op, dStates: op.arg(dStates, false)}
	b.dX, b.dRegions, b.dInitial = op.gradient(k.x), op.gradient(k.regions), op.gradient(k.initial)
	b.dAttend, b.dAttendBias, b.dScore = op.gradient(k.attend), op.gradient(k.attendBias), op.gradient(k.score)
	b.dWIH, b.dWHH, b.dBIH, b.dBHH = op.gradient(k.wih), op.gradient(k.whh), op.gradient(k.bih), op.gradient(k.bhh)
	b.dQuery, b.dKeys = op.scratch(rows*k.a), op.scratch(k.b*k.r*k.a)
	b.dVector, b.biases = op.scratch(k.b*k.a), op.scratch(4*k.h)
	return b
}

// run is the gradient of AttentionGRU: back through the steps, then the gradients of the weights, which are products
// over all rows.
func (k *decoderGradient) run(c *Call) {
	o, rows, h := k.operands(c), c.Ints(k.steps).Packing().Rows(), k.h
	dRegions, dQuery, dKeys, dAttend := c.Out[k.dRegions], c.Temp[k.dQuery], c.Temp[k.dKeys], c.Out[k.dAttend]
	a := k.allSteps(c, &o)
	a.DStates, a.DInitial, a.DQuery = c.In[k.dStates], c.Out[k.dInitial], dQuery
	a.DKeys, a.DRegions, a.DVector = dKeys, dRegions, c.Temp[k.dVector]
	DoGrad(c, a)
	k.gruWeights(c, &o, rows)

	Do(c, device.ColumnSum{Dst: c.Out[k.dAttendBias], X: dKeys, Rows: k.b * k.r, Columns: k.a}) // rounds, see Linear
	Do(c, device.Gemm{TransA: true, M: k.a, N: k.e, K: k.b * k.r, Alpha: 1, A: dKeys, B: o.regions, C: dAttend,
		LDC: k.e + h})
	Do(c, device.Gemm{TransA: true, M: k.a, N: h, K: rows, Alpha: 1, A: dQuery, B: o.prev, C: from(dAttend, k.e),
		LDC: k.e + h})
	Do(c, device.ColumnSum{Dst: c.Out[k.dScore], X: c.Temp[k.dVector], Rows: k.b, Columns: k.a})
	Do(c, device.Gemm{M: k.b * k.r, N: k.e, K: k.a, Alpha: 1, Beta: 1, A: dKeys, B: o.attend, LDB: k.e + h,
		C: dRegions})
}

// gruWeights computes the gradients of the words and of the GRU's weights from the gradients of the gates, [n, r, z,
// hn] in a row: the last three parts belong to the rows of WHH, the second and third, and the first, to the rows of
// WIH.
func (k *decoderGradient) gruWeights(c *Call, o *operands, rows int) {
	dx, dwih, dwhh, dbih, dbhh := c.Out[k.dX], c.Out[k.dWIH], c.Out[k.dWHH], c.Out[k.dBIH], c.Out[k.dBHH]
	bias := c.Temp[k.biases]
	h, in := k.h, k.w+k.e
	// newer: where the rows of n begin in WIH
	rz, newer := from(o.gates, h), 2*h*in
	Do(c, device.ColumnSum{Dst: bias, X: o.gates, Rows: rows, Columns: 4 * h}) // and rounds the gates, see Linear
	Do(c, device.Copy{Dst: dbhh, Src: from(bias, h)})
	Do(c, device.Copy{Dst: dbih.Slice(0, 2*h), Src: bias.Slice(h, 3*h)})
	Do(c, device.Copy{Dst: from(dbih, 2*h), Src: bias.Slice(0, h)})
	Do(c, device.Gemm{M: rows, N: k.w, K: 2 * h, Alpha: 1, A: rz, LDA: 4 * h, B: o.wih, LDB: in, C: dx})
	Do(c, device.Gemm{M: rows, N: k.w, K: h, Alpha: 1, Beta: 1, A: o.gates, LDA: 4 * h, B: from(o.wih, newer),
		LDB: in, C: dx})
	for _, p := range []struct {
		x        device.View
		at, size int
	}{{o.x, 0, k.w}, {o.context, k.w, k.e}} {
		Do(c, device.Gemm{TransA: true, M: 2 * h, N: p.size, K: rows, Alpha: 1, A: rz, LDA: 4 * h, B: p.x,
			C: from(dwih, p.at), LDC: in})
		Do(c, device.Gemm{TransA: true, M: h, N: p.size, K: rows, Alpha: 1, A: o.gates, LDA: 4 * h, B: p.x,
			C: from(dwih, newer+p.at), LDC: in})
	}
	Do(c, device.Gemm{TransA: true, M: 3 * h, N: h, K: rows, Alpha: 1, A: rz, LDA: 4 * h, B: o.prev, C: dwhh})
}
