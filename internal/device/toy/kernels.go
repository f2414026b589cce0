package toy

import (
	"fmt"
	"math"

	"vsetrain/internal/device"
)

// matrix is an operand of a product: element (i, k) lies at i·row + k·col.
type matrix struct {
	x        []float64
	row, col int
}

// operand returns op(v) [rows, cols] of item b of a batch.
func (d *Device) operand(v device.View, transposed bool, rows, cols, ld, stride, b int) matrix {
	if transposed {
		rows, cols = cols, rows
	}
	if ld == 0 {
		ld = cols
	}
	if ld < cols {
		panic(fmt.Sprintf("toy: Gemm: rows of %d values, %d apart", cols, ld))
	}
	n := 0
	if rows > 0 && cols > 0 {
		n = (rows-1)*ld + cols
	}
	m := matrix{d.floats(v.Slice(b*stride, v.N), n), ld, 1}
	if transposed {
		m.row, m.col = 1, ld
	}
	return m
}

// Gemm implements device.Products.
func (d *Device) Gemm(a device.GemmArgs) {
	if a.Active.Present() && a.Batch > 1 || a.Overlap() {
		panic("toy: Gemm: products that write the same elements, or several with active ones")
	}
	bias, active := d.optional(a.Bias, a.N), d.optional(a.Active, a.M*a.N)
	for n := range max(1, a.Batch) {
		x, y := d.operand(a.A, a.TransA, a.M, a.K, a.LDA, a.StrideA, n), d.operand(a.B, a.TransB, a.K, a.N, a.LDB,
			a.StrideB, n)
		c := d.operand(a.C, false, a.M, a.N, a.LDC, a.StrideC, n)
		for i := range a.M {
			for j := range a.N {
				var s float64
				for k, p, q := 0, i*x.row, j*y.col; k < a.K; k, p, q = k+1, p+x.col, q+y.row {
					s += x.x[p] * y.x[q]
				}
				s *= a.Alpha
				out := &c.x[i*c.row+j]
				if a.Beta != 0 {
					s += a.Beta * *out
				}
				if bias != nil {
					s += bias[j]
				}
				if *out = s; active != nil {
					active[i*a.N+j] = activation(a.F, s)
				}
			}
		}
	}
}

func activation(f device.Activation, x float64) float64 {
	switch f {
	case device.ReLU:
		return max(0, x)
	case device.Tanh:
		return math.Tanh(x)
	case device.Sigmoid:
		return 1 / (1 + math.Exp(-x))
	case device.Abs:
		return math.Abs(x)
	case device.GELU:
		return x / 2 * (1 + math.Erf(x/math.Sqrt2))
	}
	panic(fmt.Sprintf("toy: unknown activation %d", f))
}

// slope is the derivative of an activation at x, where it is y.
func slope(f device.Activation, x, y float64) float64 {
	switch f {
	case device.ReLU:
		if x > 0 {
			return 1
		}
		return 0
	case device.Tanh:
		return 1 - y*y
	case device.Sigmoid:
		return y * (1 - y)
	case device.Abs:
		switch {
		case x > 0:
			return 1
		case x < 0:
			return -1
		}
		return 0
	case device.GELU:
		return (1+math.Erf(x/math.Sqrt2))/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi)
	}
	panic(fmt.Sprintf("toy: unknown activation %d", f))
}

// Combine implements device.Elements.
func (d *Device) Combine(dst, a, b device.View, alpha, beta float64) {
	y, x := d.floats(dst, -1), d.exactly(a, dst.N)
	if !b.Present() {
		for i := range y {
			y[i] = alpha * x[i]
		}
		return
	}
	z := d.exactly(b, dst.N)
	for i := range y {
		y[i] = alpha*x[i] + beta*z[i]
	}
}

// Activate implements device.Elements.
func (d *Device) Activate(f device.Activation, y, x device.View) {
	out := d.floats(y, -1)
	for i, v := range d.exactly(x, y.N) {
		out[i] = activation(f, v)
	}
}

// ActivateGrad implements device.Elements.
func (d *Device) ActivateGrad(f device.Activation, dx, x, y, dy device.View) {
	ofOutput := f == device.Tanh || f == device.Sigmoid
	if ofOutput {
		x = y
	}
	out, g := d.floats(dx, -1), d.exactly(dy, dx.N)
	for i, v := range d.exactly(x, dx.N) {
		out[i] = g[i] * slope(f, v, v)
	}
}

// Multiply implements device.Primitives.
func (d *Device) Multiply(dst, a, b device.View) {
	y, x, z := d.floats(dst, -1), d.exactly(a, dst.N), d.exactly(b, dst.N)
	for i := range y {
		y[i] = x[i] * z[i]
	}
}

// Map implements device.Primitives.
func (d *Device) Map(a device.MapArgs) {
	y := d.exactly(a.Y, a.X.N)
	for i, x := range d.floats(a.X, -1) {
		y[i] = function(a.F, a.C, x)
	}
}

func function(f device.Function, c, x float64) float64 {
	switch f {
	case device.LeakyReLU:
		if x > 0 {
			return x
		}
		return c * x
	case device.Exp:
		return math.Exp(x)
	case device.Log:
		return math.Log(x)
	case device.Sqrt:
		return math.Sqrt(x)
	case device.Reciprocal:
		return 1 / (x + c)
	case device.Inverse:
		return 1 / max(x, c)
	}
	panic(fmt.Sprintf("toy: unknown function %d", f))
}

// MapGrad implements device.Primitives.
func (d *Device) MapGrad(a device.MapArgs) {
	n := a.X.N
	x, y, dy, dx := d.floats(a.X, -1), d.exactly(a.Y, n), d.exactly(a.DY, n), d.exactly(a.DX, n)
	for i, g := range dy {
		switch {
		case a.F == device.LeakyReLU && x[i] > 0:
			dx[i] = g
		case a.F == device.LeakyReLU:
			dx[i] = a.C * g
		case a.F == device.Exp:
			dx[i] = g * y[i]
		case a.F == device.Log:
			dx[i] = g / x[i]
		case a.F == device.Sqrt && y[i] == 0, a.F == device.Inverse && x[i] < a.C:
			dx[i] = 0
		case a.F == device.Sqrt:
			dx[i] = g / (2 * y[i])
		case a.F == device.Reciprocal, a.F == device.Inverse:
			dx[i] = -g * y[i] * y[i]
		default:
			panic(fmt.Sprintf("toy: unknown function %d", a.F))
		}
	}
}

// line are the values of a reduction that belong together: n of them from x[at] on, step apart.
type line struct{ at, step, n int }

// lines calls f for every row, or for every column of every segment.
func (d *Device) lines(a *device.ReduceArgs, f func(i int, l line)) {
	if a.D < 1 {
		panic(fmt.Sprintf("toy: reduction of %d columns", a.D))
	}
	if !a.Segmented() {
		for i := range a.N {
			f(i, line{i * a.D, 1, a.D})
		}
		return
	}
	first := 0
	for s, n := range a.Counts.Host {
		for k := range a.D {
			f(s*a.D+k, line{first*a.D + k, a.D, int(n)})
		}
		first += int(n)
	}
}

// reduction returns the values of a reduction.
func (d *Device) reduction(a *device.ReduceArgs) (x, y []float64, index []int32) {
	values, results := a.N*a.D, a.N
	if a.Segmented() {
		values, results = 0, len(a.Counts.Host)*a.D
		for s, n := range a.Counts.Host {
			if n < 1 {
				panic(fmt.Sprintf("toy: segment %d has %d rows, expected at least 1", s, n))
			}
			values += int(n) * a.D
		}
	}
	if a.Max {
		index = d.ints(a.Index, results)
	}
	return d.floats(a.X, values), d.floats(a.Y, results), index
}

// Reduce implements device.Primitives.
func (d *Device) Reduce(a device.ReduceArgs) {
	x, y, index := d.reduction(&a)
	d.lines(&a, func(i int, l line) {
		var sum float64
		best := 0
		for k := range l.n {
			v := x[l.at+k*l.step]
			sum += v
			if v > x[l.at+best*l.step] || math.IsNaN(v) {
				best = k
			}
		}
		if y[i] = sum; a.Max {
			y[i], index[i] = x[l.at+best*l.step], int32(best)
		}
	})
}

// Spread implements device.Primitives.
func (d *Device) Spread(a device.ReduceArgs) {
	x, y, index := d.reduction(&a)
	d.lines(&a, func(i int, l line) {
		for k := range l.n {
			if x[l.at+k*l.step] = y[i]; a.Max && int(index[i]) != k {
				x[l.at+k*l.step] = 0
			}
		}
	})
}

// SegmentProducts implements device.Primitives.
func (d *Device) SegmentProducts(a device.SegmentProductsArgs) {
	first := 0
	for s, count := range a.Counts.Host {
		n := int(count)
		if n < 1 || n > a.Longest {
			panic(fmt.Sprintf("toy: segment %d has %d rows, expected 1 to %d", s, n, a.Longest))
		}
		x, y := a.A.Slice(first*a.D, (first+n)*a.D), a.B.Slice(first*a.D, (first+n)*a.D)
		g := a.G.Slice(first*a.Longest, (first+n-1)*a.Longest+n)
		switch a.Form {
		case device.SegmentGram:
			d.Gemm(device.GemmArgs{TransB: true, M: n, N: n, K: a.D, Alpha: 1, A: x, B: y, C: g, LDC: a.Longest})
		case device.SegmentApply, device.SegmentApplyT:
			d.Gemm(device.GemmArgs{TransA: a.Form == device.SegmentApplyT, M: n, N: a.D, K: n, Alpha: 1, A: g,
				LDA: a.Longest, B: x, C: y})
		default:
			panic(fmt.Sprintf("toy: unknown form %d", a.Form))
		}
		first += n
	}
}
