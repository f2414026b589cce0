package definitions

import "vsetrain/internal/compute/device"

type rows struct{ *Device }

func (k rows) Add(a device.Add) { k.combine(a.Dst, a.A, a.B, 1, 1) }

func (k rows) Scale(a device.Scale) {
	timesEach(k.Device, a.Dst, a.X, a.Factor, alongRows(1, a.X.N))
}

func (k rows) BiasActivate(a device.BiasActivate) {
	device.DoGrad(k, device.Activate{F: a.F, DX: a.DX, X: a.X, DY: a.DY})
	if a.DBias.Present() {
		k.sumAll(a.DBias, a.DX, a.M, a.N)
	}
	if a.Y.Present() {
		device.Do(k, device.Activate{F: a.F, Y: a.Y, X: a.X})
	}
}

func (k rows) ColumnSum(a device.ColumnSum) { k.sumAll(a.Dst, a.X, a.Rows, a.Columns) }

// nothing is the bound below which the reciprocal of a norm is 0: the L2Norm with eps 0.
const nothing = 1e-30

// along is the axis of a norm: rows, or segments of N rows of Inner columns.
func (k rows) along(a device.L2Norm) along {
	if a.Inner == 1 {
		return alongRows(a.Outer, a.N)
	}
	return alongSegments(k.Each(a.Outer, a.N), a.Inner)
}

func (k rows) L2Norm(a device.L2Norm) {
	defer k.Give(k.Use())
	l := k.along(a)
	if a.Eps > 0 {
		k.unit(a.Y, a.X, a.Norm, a.Eps, l)
		return
	}
	each := k.Floats(l.results())
	k.norms(a.Norm, a.X, l)
	k.apply(device.Inverse, nothing, each, a.Norm)
	timesEach(k.Device, a.Y, a.X, each, l)
}

func (k rows) L2NormGrad(a device.L2Norm) {
	defer k.Give(k.Use())
	l := k.along(a)
	if a.Eps > 0 {
		k.unitGrad(a.DX, a.X, a.Norm, a.DY, a.Eps, l)
		return
	}
	inverse, each, y := k.Floats(l.results()), k.Floats(l.results()), k.Floats(a.X.N)
	k.apply(device.Inverse, nothing, inverse, a.Norm)
	device.Do(k, device.Multiply{Dst: each, A: a.Norm, B: inverse}) // 1, and 0 for a zero vector
	device.Do(k, device.Multiply{Dst: inverse, A: inverse, B: each})
	timesEach(k.Device, y, a.X, inverse, l)
	dotAlong(k.Device, each, y, a.DY, l)
	timesEach(k.Device, y, y, each, l)
	k.combine(y, a.DY, y, 1, -1)
	timesEach(k.Device, a.DX, y, inverse, l)
}

type layouts struct{ *Device }

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
			k.combine(a.DCaptions, a.DCaptions, dx, 1, 1)
		}
		if a.DImages.Present() {
			di := a.DImages.Slice(i*a.D, (i+1)*a.D)
			k.sumAll(di, dx, a.C, a.D)
			k.times(di, di, -1)
		}
	}
}

type factoring struct{ *Device }

// product computes the gradient that is given as factors.
func (k factoring) product(f device.Factored) device.View {
	g := k.Floats(f.O * f.I)
	device.Do(k, device.Gemm{TransA: true, M: f.O, N: f.I, K: f.N, Alpha: 1, A: f.DY, B: f.X, C: g})
	return g
}

func (k factoring) SumSquaresFactored(a device.SumSquaresFactored) {
	defer k.Give(k.Use())
	device.Do(k, device.SumSquares{Sum: a.Sum, X: k.product(a.Factored)})
}

func (k factoring) AdamFactored(a device.AdamFactored) {
	defer k.Give(k.Use())
	a.G = k.product(a.Factored)
	device.Do(k, a.Adam)
}
