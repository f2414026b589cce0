package definitions

import "vsetrain/internal/compute/device"

// Small steps of kernels. Values are [rows, width]; segments are sets of rows with counts.

// combine computes dst = alpha·a + beta·b.
func (d *Device) combine(dst, a, b device.View, alpha, beta float64) {
	device.Do(d, device.Combine{Dst: dst, A: a, B: b, Alpha: alpha, Beta: beta})
}

// times computes dst = factor·x.
func (d *Device) times(dst, x device.View, factor float64) {
	device.Do(d, device.Combine{Dst: dst, A: x, Alpha: factor})
}

// plus computes dst = x + c.
func (d *Device) plus(dst, x device.View, c float64) {
	defer d.Give(d.Use())
	device.Do(d, device.Combine{Dst: dst, A: x, B: d.Filled(x.N, 1), Alpha: 1, Beta: c})
}

// apply computes y = f(x).
func (d *Device) apply(f device.Function, c float64, y, x device.View) {
	device.Do(d, device.Map{F: f, C: c, X: x, Y: y})
}

// applyGrad computes dx = dy·f'(x).
func (d *Device) applyGrad(f device.Function, c float64, dx, x, y, dy device.View) {
	device.DoGrad(d, device.Map{F: f, C: c, X: x, Y: y, DY: dy, DX: dx})
}

// positive computes y = 1 where x > 0 and 0 elsewhere.
func (d *Device) positive(y, x device.View) {
	defer d.Give(d.Use())
	device.DoGrad(d, device.Activate{F: device.ReLU, DX: y, X: x, DY: d.Filled(x.N, 1)})
}

// notNegative computes y = 1 where x ≥ 0 or x is NaN, and 0 elsewhere. y may be x.
func (d *Device) notNegative(y, x device.View) {
	d.times(y, x, -1)
	d.positive(y, y)
	d.times(y, y, -1)
	d.plus(y, y, 1)
}

// sumRows computes y [n] = the sums of the rows of x [n, width].
func (d *Device) sumRows(y, x device.View, n, width int) {
	device.Do(d, device.Reduce{N: n, D: width, X: x, Y: y})
}

// spreadRows repeats every value of y [n] along its row of x [n, width].
func (d *Device) spreadRows(x, y device.View, n, width int) {
	device.DoGrad(d, device.Reduce{N: n, D: width, X: x, Y: y})
}

// sumSegments computes y [C, width] = the sums of the rows of each segment.
func (d *Device) sumSegments(y, x device.View, counts device.Ints, width int) {
	device.Do(d, device.Reduce{Counts: counts, D: width, X: x, Y: y})
}

// spreadSegments repeats row c of y [C, width] in every row of segment c.
func (d *Device) spreadSegments(x, y device.View, counts device.Ints, width int) {
	device.DoGrad(d, device.Reduce{Counts: counts, D: width, X: x, Y: y})
}

// repeat writes the row y [width] to n rows.
func (d *Device) repeat(x, y device.View, n, width int) {
	if n > 0 {
		defer d.Give(d.Use())
		d.spreadSegments(x, y, d.Each(1, n), width)
	}
}

// sumAll computes y [width] = the sum of n rows, 0 if n is 0.
func (d *Device) sumAll(y, x device.View, n, width int) {
	if n == 0 {
		device.Do(d, device.Fill{Dst: y})
		return
	}
	defer d.Give(d.Use())
	d.sumSegments(y, x, d.Each(1, n), width)
}

// timesRows multiplies row r of x [n, width] by factors[r]. y may be x.
func (d *Device) timesRows(y, x, factors device.View, n, width int) {
	timesEach(d, y, x, factors, alongRows(n, width))
}

// dotRows computes y [n] = Σ_k a_rk b_rk.
func (d *Device) dotRows(y, a, b device.View, n, width int) {
	dotAlong(d, y, a, b, alongRows(n, width))
}

// gather reads rows of a table [V, width] by their numbers.
func (d *Device) gather(dst, table device.View, width int, index device.Ints) {
	if len(index.Host) > 0 {
		defer d.Give(d.Use())
		device.Do(d, device.GatherWords{Words: index, Lengths: d.Each(len(index.Host), 1), L: 1, V: table.N / width,
			D: width, Table: table, Out: dst})
	}
}

// scatter sets the table to zero and adds rows to those with the given numbers.
func (d *Device) scatter(table, rows device.View, width int, index device.Ints) {
	if len(index.Host) == 0 {
		device.Do(d, device.Fill{Dst: table})
		return
	}
	defer d.Give(d.Use())
	device.DoGrad(d, device.GatherWords{Words: index, Lengths: d.Each(len(index.Host), 1), L: 1, V: table.N / width,
		D: width, Table: table, Out: rows})
}

// along is the axis of a softmax: rows of a width if there are no counts, else the segments of x [Σ counts, width].
type along struct {
	rows, width int
	counts      device.Ints
}

func alongRows(n, width int) along { return along{rows: n, width: width} }

func alongSegments(counts device.Ints, width int) along {
	return along{rows: device.Total(counts.Host), width: width, counts: counts}
}

// results is the number of sums along the axis.
func (l along) results() int {
	if l.counts.Present() {
		return len(l.counts.Host) * l.width
	}
	return l.rows
}

func (l along) args(x, y device.View) device.Reduce {
	return device.Reduce{N: l.rows, D: l.width, Counts: l.counts, X: x, Y: y}
}

// spread repeats the value of each along the axis, over all values.
func spread(d *Device, each device.View, l along) (all device.View) {
	all = d.Floats(l.rows * l.width)
	device.DoGrad(d, l.args(all, each))
	return all
}

// timesEach multiplies x by the value of each along the axis. y may be x.
func timesEach(d *Device, y, x, each device.View, l along) {
	defer d.Give(d.Use())
	device.Do(d, device.Multiply{Dst: y, A: x, B: spread(d, each, l)})
}

// dotAlong computes the sums of x∘y along the axis.
func dotAlong(d *Device, each, x, y device.View, l along) {
	defer d.Give(d.Use())
	products := d.Floats(l.rows * l.width)
	device.Do(d, device.Multiply{Dst: products, A: x, B: y})
	device.Do(d, l.args(products, each))
}

// softmax computes y = e^(factor·x) / Σ e^(factor·x). y may be x.
func (d *Device) softmax(y, x device.View, factor float64, l along) {
	if l.rows*l.width == 0 {
		return
	}
	defer d.Give(d.Use())
	each := d.Floats(l.results())
	d.times(y, x, factor)
	a := l.args(y, each)
	a.Max, a.Index = true, d.Numbers(l.results()).View
	device.Do(d, a)
	d.combine(y, y, spread(d, each, l), 1, -1)
	d.apply(device.Exp, 0, y, y)
	device.Do(d, l.args(y, each))
	d.apply(device.Reciprocal, 0, each, each)
	timesEach(d, y, y, each, l)
}

// softmaxGrad computes dx = factor·y∘(dy - Σ y∘dy). dx may be dy.
func (d *Device) softmaxGrad(dx, y, dy device.View, factor float64, l along) {
	if l.rows*l.width == 0 {
		return
	}
	defer d.Give(d.Use())
	each := d.Floats(l.results())
	dotAlong(d, each, y, dy, l)
	d.combine(dx, dy, spread(d, each, l), 1, -1) // exactly 0 where one value has all the weight
	device.Do(d, device.Multiply{Dst: dx, A: dx, B: y})
	d.times(dx, dx, factor)
}

// norms computes the Euclidean norms along l.
func (d *Device) norms(norm, x device.View, l along) {
	dotAlong(d, norm, x, x, l)
	d.apply(device.Sqrt, 0, norm, norm)
}

// normsGrad adds the gradient of the norms to dx: dnorm·x/norm, 0 for a zero vector.
func (d *Device) normsGrad(dx, x, norm, dnorm device.View, l along) {
	defer d.Give(d.Use())
	each, all := d.Floats(l.results()), d.Floats(l.rows*l.width)
	d.applyGrad(device.Sqrt, 0, each, norm, norm, dnorm)
	timesEach(d, all, x, each, l)
	d.combine(dx, dx, all, 1, 2)
}

// unit computes y = x/(‖x‖ + eps), eps above 0, and keeps the norms.
func (d *Device) unit(y, x, norm device.View, eps float64, l along) {
	defer d.Give(d.Use())
	each := d.Floats(l.results())
	d.norms(norm, x, l)
	d.apply(device.Reciprocal, eps, each, norm)
	timesEach(d, y, x, each, l)
}

// unitGrad computes dx from dy. dx may be dy.
func (d *Device) unitGrad(dx, x, norm, dy device.View, eps float64, l along) {
	defer d.Give(d.Use())
	inverse, each := d.Floats(l.results()), d.Floats(l.results())
	d.apply(device.Reciprocal, eps, inverse, norm)
	dotAlong(d, each, x, dy, l)
	d.applyGrad(device.Reciprocal, eps, each, norm, inverse, each) // of the norms
	timesEach(d, dx, dy, inverse, l)
	d.normsGrad(dx, x, norm, each, l)
}

// dropout copies rows of a width from x to y, with dropout.
func (d *Device) dropout(y, x device.View, drop device.DropoutParams, width int) {
	if drop.Rate == 0 {
		if y != x {
			device.Do(d, device.Copy{Dst: y, Src: x})
		}
		return
	}
	device.Do(d, device.Dropout{DropoutParams: drop, Width: width, X: x, Y: y})
}
