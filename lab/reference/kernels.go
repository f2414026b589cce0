package reference

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// matrix is an operand of a product: element (i, k) is at i·row + k·col.
type matrix struct {
	x        []float64
	row, col int
}

// operand returns op(v) of the item of a batch that begins at element `first`.
func operand(v device.View, transposed bool, ld, first int) matrix {
	x := floats(v)
	m := matrix{x[min(first, len(x)):], ld, 1}
	if transposed {
		m.row, m.col = 1, ld
	}
	return m
}

func (d *Device) Gemm(a device.Gemm) {
	if a.M == 0 || a.N == 0 {
		return
	}
	bias, active := floats(a.Bias), floats(a.Active)
	for n := range max(1, a.Batch) {
		x, y := operand(a.A, a.TransA, a.LDA, n*a.StrideA), operand(a.B, a.TransB, a.LDB, n*a.StrideB)
		c := operand(a.C, false, a.LDC, n*a.StrideC)
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
	panic(fmt.Sprintf("reference: unknown activation %d", f))
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
	panic(fmt.Sprintf("reference: unknown activation %d", f))
}

func (d *Device) Combine(a device.Combine) {
	y, x, z := floats(a.Dst), floats(a.A), floats(a.B)
	for i := range y {
		v := a.Alpha * x[i]
		if z != nil {
			v += a.Beta * z[i]
		}
		y[i] = v
	}
}

func (d *Device) Activate(a device.Activate) {
	out := floats(a.Y)
	for i, v := range floats(a.X) {
		out[i] = activation(a.F, v)
	}
}

func (d *Device) ActivateGrad(a device.Activate) {
	x := a.X
	if a.F == device.Tanh || a.F == device.Sigmoid {
		x = a.Y
	}
	out, g := floats(a.DX), floats(a.DY)
	for i, v := range floats(x) {
		out[i] = g[i] * slope(a.F, v, v)
	}
}

func (d *Device) Multiply(a device.Multiply) {
	y, x, z := floats(a.Dst), floats(a.A), floats(a.B)
	for i := range y {
		y[i] = x[i] * z[i]
	}
}

func (d *Device) Map(a device.Map) {
	y := floats(a.Y)
	for i, x := range floats(a.X) {
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
	panic(fmt.Sprintf("reference: unknown function %d", f))
}

func (d *Device) MapGrad(a device.Map) {
	x, y, dy, dx := floats(a.X), floats(a.Y), floats(a.DY), floats(a.DX)
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
		}
	}
}

// line are the values of a reduction that belong together: n of them from x[at] on, step apart.
type line struct{ at, step, n int }

// lines calls f for every row, or for every column of every segment.
func lines(a *device.Reduce, f func(i int, l line)) {
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

func (d *Device) Reduce(a device.Reduce) {
	if a.Grad {
		d.spread(a)
		return
	}
	x, y, index := floats(a.X), floats(a.Y), ints(a.Index)
	lines(&a, func(i int, l line) {
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

func (d *Device) spread(a device.Reduce) {
	x, y, index := floats(a.X), floats(a.Y), ints(a.Index)
	lines(&a, func(i int, l line) {
		for k := range l.n {
			if x[l.at+k*l.step] = y[i]; a.Max && int(index[i]) != k {
				x[l.at+k*l.step] = 0
			}
		}
	})
}

// words calls f with the packed row and the word of every position.
func words(a *device.GatherWords, f func(row, word int)) {
	p := a.Lengths.Packing()
	for t := range p.Steps() {
		for b := range p.Active(t) {
			w := int(a.Words.Host[b*a.L+t])
			if w < 0 || w >= a.V {
				panic(fmt.Sprintf("reference: word %d of caption %d at %d, expected less than %d", w, b, t, a.V))
			}
			f(p.Start(t)+b, w)
		}
	}
}

func (d *Device) GatherWords(a device.GatherWords) {
	table, out := floats(a.Table), floats(a.Out)
	words(&a, func(row, w int) { copy(out[row*a.D:][:a.D], table[w*a.D:]) })
}

func (d *Device) GatherWordsGrad(a device.GatherWords) {
	table, out := floats(a.Table), floats(a.Out)
	clear(table)
	words(&a, func(row, w int) {
		for k, v := range out[row*a.D:][:a.D] {
			table[w*a.D+k] += v
		}
	})
}
