package composed

import "vsetrain/internal/device"

type rows struct{ *Device }

// Add implements device.Rows.
func (k rows) Add(dst, a, b device.View) {
	k.check("Add").Binary(&dst, &a, &b)
	k.combine(dst, a, b, 1, 1)
}

// Scale implements device.Rows.
func (k rows) Scale(dst, x, factor device.View) {
	k.check("Scale").Scale(&dst, &x, &factor)
	defer k.give(k.use())
	all := k.floats(x.N)
	k.spreadRows(all, factor, 1, x.N)
	k.Multiply(dst, x, all)
}

// BiasActivateGrad implements device.Rows.
func (k rows) BiasActivateGrad(a device.BiasActivateArgs) {
	a.Views(k.check("BiasActivateGrad"))
	k.ActivateGrad(a.F, a.DX, a.X, device.View{}, a.DY)
	if a.DBias.Present() {
		k.sumAll(a.DBias, a.DX, a.M, a.N)
	}
	if a.Y.Present() {
		k.Activate(a.F, a.Y, a.X)
	}
}

// ColumnSum implements device.Rows.
func (k rows) ColumnSum(dst, x device.View, n, cols int) {
	k.check("ColumnSum").ColumnSum(&dst, &x, n, cols)
	k.sumAll(dst, x, n, cols)
}

// nothing is a number so small that the reciprocal of a norm below it is taken for 0: the L2Norm of eps 0.
const nothing = 1e-30

// along is the axis of a norm: rows, or segments of N rows of Inner columns.
func (k rows) along(a device.L2NormArgs) along {
	if a.Inner == 1 {
		return alongRows(a.Outer, a.N)
	}
	return alongSegments(k.each(a.Outer, a.N), a.Inner)
}

// L2Norm implements device.Rows.
func (k rows) L2Norm(a device.L2NormArgs) {
	a.Views(k.check("L2Norm"))
	defer k.give(k.use())
	n, results := a.Outer*a.N*a.Inner, a.Outer*a.Inner
	l, x, y, norm := k.along(a), a.X, a.Y, a.Norm
	if a.Eps > 0 {
		k.unit(y, x, norm, a.Eps, l)
		return
	}
	each, all := k.floats(results), k.floats(n)
	k.norms(norm, x, l)
	k.apply(device.Inverse, nothing, each, norm)
	k.Spread(l.args(all, each))
	k.Multiply(y, x, all)
}

// L2NormGrad implements device.Rows.
func (k rows) L2NormGrad(a device.L2NormArgs) {
	a.Views(k.check("L2NormGrad"))
	defer k.give(k.use())
	n, results := a.Outer*a.N*a.Inner, a.Outer*a.Inner
	l, x, norm, dy, dx := k.along(a), a.X, a.Norm, a.DY, a.DX
	if a.Eps > 0 {
		k.unitGrad(dx, x, norm, dy, a.Eps, l)
		return
	}
	inverse, each, all, y := k.floats(results), k.floats(results), k.floats(n), k.floats(n)
	k.apply(device.Inverse, nothing, inverse, norm)
	k.Multiply(each, norm, inverse) // 1, and 0 for a zero vector
	k.Multiply(inverse, inverse, each)
	k.Spread(l.args(all, inverse))
	k.Multiply(y, x, all)
	k.Multiply(all, y, dy)
	k.Reduce(l.args(all, each))
	k.Spread(l.args(all, each))
	k.Multiply(y, y, all)
	k.combine(y, dy, y, 1, -1)
	k.Spread(l.args(all, inverse))
	k.Multiply(dx, y, all)
}

type layouts struct{ *Device }

// SwapAxes implements device.Layouts.
func (k layouts) SwapAxes(dst, x device.View, a, b, inner int) {
	k.check("SwapAxes").SwapAxes(&dst, &x, a, b, inner)
	defer k.give(k.use())
	from := k.numbers(a * b)
	for i := range a {
		for j := range b {
			from.Host[j*a+i] = int32(i*b + j)
		}
	}
	k.gather(dst, x, inner, k.send(from))
}

type orders struct{ *Device }

// above computes x_j = max(0, c_j - i_i) for image i and all captions.
func (k orders) above(x device.View, a device.OrderArgs, i int) {
	k.repeat(x, a.Images.Slice(i*a.D, (i+1)*a.D), a.C, a.D)
	k.combine(x, a.Captions, x, 1, -1)
	k.Activate(device.ReLU, x, x)
}

// OrderScores implements device.Orders.
func (k orders) OrderScores(a device.OrderArgs) {
	a.Views(k.check("OrderScores"))
	defer k.give(k.use())
	x := k.floats(a.C * a.D)
	for i := range a.B {
		row := a.Scores.Slice(i*a.C, (i+1)*a.C)
		k.above(x, a, i)
		k.norms(row, x, alongRows(a.C, a.D))
		k.times(row, row, -1)
	}
}

// OrderScoresGrad implements device.Orders.
func (k orders) OrderScoresGrad(a device.OrderArgs) {
	a.Views(k.check("OrderScoresGrad"))
	defer k.give(k.use())
	x, dx, norm, dnorm := k.floats(a.C*a.D), k.floats(a.C*a.D), k.floats(a.C), k.floats(a.C)
	if a.DCaptions.Present() {
		k.Fill(a.DCaptions, 0)
	}
	for i := range a.B {
		k.above(x, a, i)
		k.times(norm, a.Scores.Slice(i*a.C, (i+1)*a.C), -1)
		k.times(dnorm, a.DScores.Slice(i*a.C, (i+1)*a.C), -1)
		k.Fill(dx, 0)
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
	g := k.floats(f.O * f.I)
	k.Gemm(device.GemmArgs{TransA: true, M: f.O, N: f.I, K: f.N, Alpha: 1, A: f.DY, B: f.X, C: g})
	return g
}

// SumSquaresFactored implements device.Factoring.
func (k factoring) SumSquaresFactored(acc device.View, f device.Factored) {
	k.check("SumSquaresFactored").SumSquaresFactored(&acc, &f)
	defer k.give(k.use())
	k.SumSquares(acc, k.product(f))
}

// AdamFactored implements device.Factoring.
func (k factoring) AdamFactored(a device.AdamArgs, f device.Factored) {
	k.check("AdamFactored").AdamFactored(&a, &f)
	defer k.give(k.use())
	a.G = k.product(f)
	k.Adam(a)
}
