package graph

import "vsetrain/internal/device"

// decoderGradient is the backward op of AttentionGRU.
type decoderGradient struct {
	*decoder
	op                                                   *Op
	dStates                                              int // argument
	dX, dRegions, dInitial, dAttend, dAttendBias, dScore int // results
	dWIH, dWHH, dBIH, dBHH                               int
	carry, dQuery, dKeys, dVector, dContext, biases      int // scratch memory
}

func newDecoderGradient(k *decoder, op *Op, rows int, dStates *Node) *decoderGradient {
	b := &decoderGradient{decoder: k, op: op, dStates: op.arg(dStates, false)}
	b.dX, b.dRegions, b.dInitial = op.gradient(k.x), op.gradient(k.regions), op.gradient(k.initial)
	b.dAttend, b.dAttendBias, b.dScore = op.gradient(k.attend), op.gradient(k.attendBias), op.gradient(k.score)
	b.dWIH, b.dWHH, b.dBIH, b.dBHH = op.gradient(k.wih), op.gradient(k.whh), op.gradient(k.bih), op.gradient(k.bhh)
	b.carry, b.dQuery, b.dKeys = op.scratch(k.b*k.h), op.scratch(rows*k.a), op.scratch(k.b*k.r*k.a)
	b.dVector, b.dContext, b.biases = op.scratch(k.b*k.a), op.scratch(k.b*k.e), op.scratch(4*k.h)
	return b
}

// run is the gradient of AttentionGRU, back through time. A step leaves the gradients of its gates, of its query and of
// its context, which the attention adds up over the steps; the gradients of the weights are products over all rows at
// the end.
func (k *decoderGradient) run(d device.Device, c *Call) {
	o := k.operands(c)
	k.pack = c.Ints(k.steps).Packing()
	h := k.h
	dRegions, dQuery, dKeys := c.Out[k.dRegions], c.Temp[k.dQuery], c.Temp[k.dKeys]
	if !k.stepsAtOnce(d, c, &o) {
		k.oneByOne(d, c, &o)
	}
	k.gruWeights(d, c, &o)

	rows := k.pack.Rows()
	dAttend := c.Out[k.dAttend]
	d.ColumnSum(c.Out[k.dAttendBias], dKeys, k.b*k.r, k.a) // and rounds dKeys, see Linear
	d.Gemm(device.GemmArgs{TransA: true, M: k.a, N: k.e, K: k.b * k.r, Alpha: 1, A: dKeys, B: o.regions, C: dAttend,
		LDC: k.e + h})
	d.Gemm(device.GemmArgs{TransA: true, M: k.a, N: h, K: rows, Alpha: 1, A: dQuery, B: o.prev, C: from(dAttend, k.e),
		LDC: k.e + h})
	d.ColumnSum(c.Out[k.dScore], c.Temp[k.dVector], k.b, k.a)
	d.Gemm(device.GemmArgs{M: k.b * k.r, N: k.e, K: k.a, Alpha: 1, Beta: 1, A: dKeys, B: o.attend, LDB: k.e + h,
		C: dRegions})
}

// stepsAtOnce reports whether the device has computed the steps.
func (k *decoderGradient) stepsAtOnce(d device.Device, c *Call, o *operands) bool {
	all, ok := d.(device.Decoding)
	if !ok {
		return false
	}
	a := k.allSteps(c, o)
	a.DStates, a.DInitial, a.DQuery = c.In[k.dStates], c.Out[k.dInitial], c.Temp[k.dQuery]
	a.DKeys, a.DRegions, a.DVector = c.Temp[k.dKeys], c.Out[k.dRegions], c.Temp[k.dVector]
	return all.DecoderStepsGrad(a)
}

// oneByOne computes the steps one behind the other.
func (k *decoderGradient) oneByOne(d device.Device, c *Call, o *operands) {
	dStates, dRegions := c.In[k.dStates], c.Out[k.dRegions]
	carry, dQuery, dKeys := c.Temp[k.carry], c.Temp[k.dQuery], c.Temp[k.dKeys]
	dVector, dContext := c.Temp[k.dVector], c.Temp[k.dContext]
	h, in := k.h, k.w+k.e
	for _, v := range []device.View{carry, dKeys, dVector, dRegions} {
		d.Fill(v, 0)
	}
	for t := k.pack.Steps() - 1; t >= 0; t-- {
		n, start := k.pack.Active(t), k.pack.Start(t)
		gates, state := part(o.gates, start, n, 4*h), carry.Slice(0, n*h)
		d.GRUCellGrad(device.GRUCellArgs{N: n, H: h, Gates: gates, Prev: part(o.prev, start, n, h), DY: part(dStates,
			start, n, h), Carry: state})
		d.Gemm(device.GemmArgs{M: n, N: h, K: 3 * h, Alpha: 1, Beta: 1, A: from(gates, h), LDA: 4 * h, B: o.whh,
			C: state})
		a := k.attention(o, start, n)
		a.DContext, a.DQuery = dContext.Slice(0, n*k.e), part(dQuery, start, n, k.a)
		a.DKeys, a.DValues, a.DVector = dKeys, dRegions, dVector
		d.Gemm(device.GemmArgs{M: n, N: k.e, K: 2 * h, Alpha: 1, A: from(gates, h), LDA: 4 * h, B: o.wihContext,
			LDB: in, C: a.DContext})
		d.Gemm(device.GemmArgs{M: n, N: k.e, K: h, Alpha: 1, Beta: 1, A: gates, LDA: 4 * h, B: from(o.wihContext,
			2*h*in), LDB: in, C: a.DContext})
		k.dropped(d, c, a.DContext, start)
		d.AdditiveAttentionGrad(a)
		d.Gemm(device.GemmArgs{M: n, N: h, K: k.a, Alpha: 1, Beta: 1, A: a.DQuery, B: o.attendState, LDB: k.e + h,
			C: state})
	}
	d.Copy(c.Out[k.dInitial], carry)
}

// gruWeights computes the gradients of the words and of the GRU's weights from those of the gates, [n, r, z, hn] in a
// row: the last three parts belong to the rows of WHH, the second and third, and the first, to those of WIH.
func (k *decoderGradient) gruWeights(d device.Device, c *Call, o *operands) {
	dx, dwih, dwhh, dbih, dbhh := c.Out[k.dX], c.Out[k.dWIH], c.Out[k.dWHH], c.Out[k.dBIH], c.Out[k.dBHH]
	bias := c.Temp[k.biases]
	h, in, rows := k.h, k.w+k.e, k.pack.Rows()
	rz, newer := from(o.gates, h), 2*h*in // newer: where the rows of n begin in WIH
	d.ColumnSum(bias, o.gates, rows, 4*h) // and rounds the gates, see Linear
	d.Copy(dbhh, from(bias, h))
	d.Copy(dbih.Slice(0, 2*h), bias.Slice(h, 3*h))
	d.Copy(from(dbih, 2*h), bias.Slice(0, h))
	d.Gemm(device.GemmArgs{M: rows, N: k.w, K: 2 * h, Alpha: 1, A: rz, LDA: 4 * h, B: o.wih, LDB: in, C: dx})
	d.Gemm(device.GemmArgs{M: rows, N: k.w, K: h, Alpha: 1, Beta: 1, A: o.gates, LDA: 4 * h, B: from(o.wih, newer),
		LDB: in, C: dx})
	for _, p := range []struct {
		x        device.View
		at, size int
	}{{o.x, 0, k.w}, {o.context, k.w, k.e}} {
		d.Gemm(device.GemmArgs{TransA: true, M: 2 * h, N: p.size, K: rows, Alpha: 1, A: rz, LDA: 4 * h, B: p.x,
			C: from(dwih, p.at), LDC: in})
		d.Gemm(device.GemmArgs{TransA: true, M: h, N: p.size, K: rows, Alpha: 1, A: o.gates, LDA: 4 * h, B: p.x,
			C: from(dwih, newer+p.at), LDC: in})
	}
	d.Gemm(device.GemmArgs{TransA: true, M: 3 * h, N: h, K: rows, Alpha: 1, A: rz, LDA: 4 * h, B: o.prev, C: dwhh})
}
