package definitions

import "vsetrain/internal/compute/device"

type rows struct{ *Device }

// Add composes that kernel.
func (k rows) Add(a device.Add) { k.combine(a.Dst, a.A, a.B, 1, 1) }

// Scale composes that kernel.
func (k rows) Scale(a device.Scale) {
	defer k.Give(k.Use())
	all := k.Floats(a.X.N)
	k.spreadRows(all, a.Factor, 1, a.X.N)
	device.Do(k, device.Multiply{Dst: a.Dst, A: a.X, B: all})
}

// BiasActivate composes that kernel.
func (k rows) BiasActivate(a device.BiasActivate) {
	device.DoGrad(k, device.Activate{F: a.F, DX: a.DX, X: a.X, DY: a.DY})
	if a.DBias.Present() {
		k.sumAll(a.DBias, a.DX, a.M, a.N)
	}
	if a.Y.Present() {
		device.Do(k, device.Activate{F: a.F, Y: a.Y, X: a.X})
	}
}

// ColumnSum composes that kernel.
func (k rows) ColumnSum(a device.ColumnSum) { k.sumAll(a.Dst, a.X, a.Rows, a.Columns) }

// nothing is a number so small that the reciprocal of a norm below it is taken for 0: the L2Norm of eps 0.
const nothing = 1e-30

// along is the axis of a norm: rows, or segments of N rows of Inner columns.
func (k rows) along(a device.L2Norm) along {
	if a.Inner == 1 {
		return alongRows(a.Outer, a.N)
	}
	return alongSegments(k.Each(a.Outer, a.N), a.Inner)
}

// L2Norm composes that kernel.
func (k rows) L2Norm(a device.L2Norm) {
	defer k.Give(k.Use())
	n, results := a.Outer*a.N*a.Inner, a.Outer*a.Inner
	l, x, y, norm := k.along(a), a.X, a.Y, a.Norm
	if a.Eps > 0 {
		k.unit(y, x, norm, a.Eps, l)
		return
	}
	each, all := k.Floats(results), k.Floats(n)
	k.norms(norm, x, l)
	k.apply(device.Inverse, nothing, each, norm)
	device.DoGrad(k, l.args(all, each))
	device.Do(k, device.Multiply{Dst: y, A: x, B: all})
}

// L2NormGrad composes that kernel.
func (k rows) L2NormGrad(a device.L2Norm) {
	defer k.Give(k.Use())
	n, results := a.Outer*a.N*a.Inner, a.Outer*a.Inner
	l, x, norm, dy, dx := k.along(a), a.X, a.Norm, a.DY, a.DX
	if a.Eps > 0 {
		k.unitGrad(dx, x, norm, dy, a.Eps, l)
		return
	}
	inverse, each, all, y := k.Floats(results), k.Floats(results), k.Floats(n), k.Floats(n)
	k.apply(device.Inverse, nothing, inverse, norm)
	device.Do(k, device.Multiply{Dst: each, A: norm, B: inverse}) // 1, and 0 for a zero vector
	device.Do(k, device.Multiply{Dst: inverse, A: inverse, B: each})
	device.DoGrad(k, l.args(all, inverse))
	device.Do(k, device.Multiply{Dst: y, A: x, B: all})
	device.Do(k, device.Multiply{Dst: all, A: y, B: dy})
	device.Do(k, l.args(all, each))
	device.DoGrad(k, l.args(all, each))
	device.Do(k, device.Multiply{Dst: y, A: y, B: all})
	k.combine(y, dy, y, 1, -1)
	device.DoGrad(k, l.args(all, inverse))
	device.Do(k, device.Multiply{Dst: dx, A: y, B: all})
}

type layouts struct{ *Device }

// SwapAxes composes that kernel.
func (k layouts) SwapAxes(a device.SwapAxes) {
	defer k.Give(k.Use())
	from := k.Numbers(a.A * a.B)
	for i := range a.A {
		for j := range a.B {
			from.Host[j*a.A+i] = int32(i*a.B + j)
		}
	}
	k.gather(a.Dst, a.X, a.Inner, k.Send(from))
}

type orders struct{ *Device }

// above computes x_j = max(0, c_j - i_i) for image i and all captions.
func (k orders) above(x device.View, a device.OrderScores, i int) {
	k.repeat(x, a.Images.Slice(i*a.D, (i+1)*a.D), a.C, a.D)
	k.combine(x, a.Captions, x, 1, -1)
	device.Do(k, device.Activate{F: device.ReLU, Y: x, X: x})
}

// OrderScores composes that kernel.
func (k orders) OrderScores(a device.OrderScores) {
	defer k.Give(k.Use())
	x := k.Floats(a.C * a.D)
	for i := range a.B {
		row := a.Scores.Slice(i*a.C, (i+1)*a.C)
		k.above(x, a, i)
		k.norms(row, x, alongRows(a.C, a.D))
		k.times(row, row, -1)
	}
}

// OrderScoresGrad composes that kernel.
func (k orders) OrderScoresGrad(a device.OrderScores) {
	defer k.Give(k.Use())
	x, dx, norm, dnorm := k.Floats(a.C*a.D), k.Floats(a.C*a.D), k.Floats(a.C), k.Floats(a.C)
	if a.DCaptions.Present() {
		device.Do(k, device.Fill{Dst: a.DCaptions})
	}
	for i := range a.B {
		k.above(x, a, i)
		k.times(norm, a.Scores.Slice(i*a.C, (i+1)*a.C), -1)
		k.times(dnorm, a.DScores.Slice(i*a.C, (i+1)*a.C), -1)
		device.Do(k, device.Fill{Dst: dx})
		k.normsGrad(dx, x, norm, dnorm, alongRows(a.C, a.D))
		if a.DCaptions.Present() {
			dc := a.DCaptions
			k.combine(dc, dc, dx, 1, 1)
		}
		if a.DImages.Present() {
			di := a.DImages.Slice(i*a.D, (i+1)*a.D)
			k.sumAll(di, dx, a.C, a.D)
			k.times(di, di, -1)
		}
	}
}

type factoring struct{ *Device }

// product makes the gradient that is given as factors.
func (k factoring) product(f device.Factored) device.View {
	g := k.Floats(f.O * f.I)
	device.Do(k, device.Gemm{TransA: true, M: f.O, N: f.I, K: f.N, Alpha: 1, A: f.DY, B: f.X, C: g})
	return g
}

// SumSquaresFactored composes that kernel.
func (k factoring) SumSquaresFactored(a device.SumSquaresFactored) {
	defer k.Give(k.Use())
	device.Do(k, device.SumSquares{Sum: a.Sum, X: k.product(a.Factored)})
}

// AdamFactored composes that kernel.
func (k factoring) AdamFactored(a device.AdamFactored) {
	defer k.Give(k.Use())
	a.G = k.product(a.Factored)
	device.Do(k, a.Adam)
}
