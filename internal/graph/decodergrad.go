package graph

import "vsetrain/internal/device"

// backward is the gradient of AttentionGRU, back through time. A step leaves the gradients of its gates, of its query and of
// its context, which the attention adds up over the steps; the gradients of the weights are products over all rows at the end.
func (k *decoder) backward(d device.Device, c *Call) {
	o := k.operands(c)
	dStates, dRegions := c.In[len(c.In)-1], c.Out[1]
	carry, dQuery, dKeys, dVector, dContext := c.Temp[0], c.Temp[1], c.Temp[2], c.Temp[3], c.Temp[4]
	k.pack = c.Ints(3).Packing()
	h, in := k.h, k.w+k.e
	for _, v := range []device.View{carry, dKeys, dVector, dRegions} {
		d.Fill(v, 0)
	}
	for t := k.pack.Steps() - 1; t >= 0; t-- {
		n, start := k.pack.Active(t), k.pack.Start(t)
		gates, state := part(o.gates, start, n, 4*h), carry.Slice(0, n*h)
		d.GRUCellGrad(device.GRUCellArgs{N: n, H: h, Gates: gates, Prev: part(o.prev, start, n, h), DY: part(dStates, start, n, h), Carry: state})
		d.Gemm(device.GemmArgs{M: n, N: h, K: 3 * h, Alpha: 1, Beta: 1, A: from(gates, h), LDA: 4 * h, B: o.whh, C: state})
		a := k.attention(&o, start, n)
		a.DContext, a.DQuery = dContext.Slice(0, n*k.e), part(dQuery, start, n, k.a)
		a.DKeys, a.DValues, a.DVector = dKeys, dRegions, dVector
		d.Gemm(device.GemmArgs{M: n, N: k.e, K: 2 * h, Alpha: 1, A: from(gates, h), LDA: 4 * h, B: o.wihContext, LDB: in, C: a.DContext})
		d.Gemm(device.GemmArgs{M: n, N: k.e, K: h, Alpha: 1, Beta: 1, A: gates, LDA: 4 * h, B: from(o.wihContext, 2*h*in), LDB: in, C: a.DContext})
		k.dropped(d, c, a.DContext, start)
		d.AdditiveAttentionGrad(a)
		d.Gemm(device.GemmArgs{M: n, N: h, K: k.a, Alpha: 1, Beta: 1, A: a.DQuery, B: o.attendState, LDB: k.e + h, C: state})
	}
	d.Copy(c.Out[2], carry)
	k.gruWeights(d, c, &o)

	rows := k.pack.Rows()
	dAttend := c.Out[3]
	d.Gemm(device.GemmArgs{TransA: true, M: k.a, N: k.e, K: k.b * k.r, Alpha: 1, A: dKeys, B: o.regions, C: dAttend, LDC: k.e + h})
	d.Gemm(device.GemmArgs{TransA: true, M: k.a, N: h, K: rows, Alpha: 1, A: dQuery, B: o.prev, C: from(dAttend, k.e), LDC: k.e + h})
	d.ColumnSum(c.Out[4], dKeys, k.b*k.r, k.a)
	d.ColumnSum(c.Out[5], dVector, k.b, k.a)
	d.Gemm(device.GemmArgs{M: k.b * k.r, N: k.e, K: k.a, Alpha: 1, Beta: 1, A: dKeys, B: o.attend, LDB: k.e + h, C: dRegions})
}

// gruWeights computes the gradients of the words and of the GRU's weights from those of the gates, [n, r, z, hn] in a row: the last
// three parts belong to the rows of WHH, the second and third, and the first, to those of WIH.
func (k *decoder) gruWeights(d device.Device, c *Call, o *operands) {
	dx, dwih, dwhh, dbih, dbhh, bias := c.Out[0], c.Out[6], c.Out[7], c.Out[8], c.Out[9], c.Temp[5]
	h, in, rows := k.h, k.w+k.e, k.pack.Rows()
	rz, newer := from(o.gates, h), 2*h*in // newer: where the rows of n begin in WIH
	d.Gemm(device.GemmArgs{M: rows, N: k.w, K: 2 * h, Alpha: 1, A: rz, LDA: 4 * h, B: o.wih, LDB: in, C: dx})
	d.Gemm(device.GemmArgs{M: rows, N: k.w, K: h, Alpha: 1, Beta: 1, A: o.gates, LDA: 4 * h, B: from(o.wih, newer), LDB: in, C: dx})
	for _, p := range []struct {
		x        device.View
		at, size int
	}{{o.x, 0, k.w}, {o.context, k.w, k.e}} {
		d.Gemm(device.GemmArgs{TransA: true, M: 2 * h, N: p.size, K: rows, Alpha: 1, A: rz, LDA: 4 * h, B: p.x, C: from(dwih, p.at), LDC: in})
		d.Gemm(device.GemmArgs{TransA: true, M: h, N: p.size, K: rows, Alpha: 1, A: o.gates, LDA: 4 * h, B: p.x, C: from(dwih, newer+p.at), LDC: in})
	}
	d.Gemm(device.GemmArgs{TransA: true, M: 3 * h, N: h, K: rows, Alpha: 1, A: rz, LDA: 4 * h, B: o.prev, C: dwhh})
	d.ColumnSum(bias, o.gates, rows, 4*h)
	d.Copy(dbhh, from(bias, h))
	d.Copy(dbih.Slice(0, 2*h), bias.Slice(h, 3*h))
	d.Copy(from(dbih, 2*h), bias.Slice(0, h))
}
