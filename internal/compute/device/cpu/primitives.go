package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// mapLoop is y = f(x), or dx = dy·f'(x).
type mapLoop[T vec.Float] struct {
	ops          *vec.Ops[T]
	f            device.Function
	c            T
	back         bool
	x, y, dy, dx []T
}

func (d *dev[T]) MapGrad(a device.Map) { d.Map(a) }

func (d *dev[T]) Map(a device.Map) {
	l := &d.maps
	*l = mapLoop[T]{ops: d.ops, f: a.F, c: T(a.C), back: a.Grad, x: d.values(a.X), y: d.values(a.Y),
		dy: d.values(a.DY), dx: d.values(a.DX)}
	d.blocks(len(l.x), l)
}

func (l *mapLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.x), i)
	if l.back {
		l.grad(l.dx[lo:hi], l.x[lo:hi], l.y[lo:hi], l.dy[lo:hi])
		return
	}
	x, y, c := l.x[lo:hi], l.y[lo:hi], l.c
	switch l.f {
	case device.LeakyReLU:
		for k, v := range x {
			if !(v > 0) {
				v *= c
			}
			y[k] = v
		}
	case device.Exp:
		l.ops.Exp(y, x)
	case device.Log:
		for k, v := range x {
			y[k] = T(math.Log(float64(v)))
		}
	case device.Sqrt:
		for k, v := range x {
			y[k] = T(math.Sqrt(float64(v)))
		}
	case device.Reciprocal:
		for k, v := range x {
			y[k] = 1 / (v + c)
		}
	case device.Inverse:
		for k, v := range x {
			y[k] = 1 / max(v, c)
		}
	}
}

func (l *mapLoop[T]) grad(dx, x, y, dy []T) {
	c := l.c
	switch l.f {
	case device.LeakyReLU:
		for k, v := range dy {
			if !(x[k] > 0) {
				v *= c
			}
			dx[k] = v
		}
	case device.Exp:
		l.ops.Mul(dx, dy, y)
	case device.Log:
		for k, v := range dy {
			dx[k] = v / x[k]
		}
	case device.Sqrt:
		for k, v := range dy {
			if y[k] == 0 {
				dx[k] = 0
				continue
			}
			dx[k] = v / (2 * y[k])
		}
	case device.Reciprocal:
		for k, v := range dy {
			dx[k] = -v * y[k] * y[k]
		}
	case device.Inverse:
		for k, v := range dy {
			if x[k] < c {
				dx[k] = 0
				continue
			}
			dx[k] = -v * y[k] * y[k]
		}
	}
}

// reduceLoop is a reduction along rows, a group of them an index, or along segments, one an index.
type reduceLoop[T vec.Float] struct {
	ops      *vec.Ops[T]
	max      bool
	spread   bool
	segments bool
	n, d     int
	first    []int // of segments: the first row of each, and the total
	x, y     []T
	index    []int32
}

// Reduce computes that kernel and its gradient.
func (d *dev[T]) Reduce(a device.Reduce) {
	l := &d.reductions
	*l = reduceLoop[T]{ops: d.ops, max: a.Max, spread: a.Grad, segments: a.Segmented(), n: a.N, d: a.D,
		first: starts(l.first, a.Counts.Host, same), x: d.values(a.X), y: d.values(a.Y), index: d.integers(a.Index)}
	count := pieces(a.N, group(a.D))
	if l.segments {
		count = len(a.Counts.Host)
	}
	d.pool.For(count, l)
}

func (l *reduceLoop[T]) Do(_, i int) {
	switch {
	case !l.segments:
		size := group(l.d)
		for r := i * size; r < min(l.n, (i+1)*size); r++ {
			l.row(r, l.x[r*l.d:][:l.d])
		}
	case l.spread:
		l.spreadSegment(i)
	default:
		l.reduceSegment(i)
	}
}

func (l *reduceLoop[T]) row(r int, x []T) {
	switch {
	case l.spread && l.max:
		l.ops.Fill(x, 0)
		x[l.index[r]] = l.y[r]
	case l.spread:
		l.ops.Fill(x, l.y[r])
	case l.max:
		best := greatest(x)
		l.y[r], l.index[r] = x[best], int32(best)
	default:
		l.y[r] = total(x)
	}
}

func (l *reduceLoop[T]) reduceSegment(i int) {
	d, lo, hi := l.d, l.first[i], l.first[i+1]
	y := l.y[i*d:][:d]
	copy(y, l.x[lo*d:])
	if !l.max {
		addRows(l.ops, y, l.x[(lo+1)*d:hi*d], hi-lo-1)
		return
	}
	index := l.index[i*d:][:d]
	clear(index)
	for r := lo + 1; r < hi; r++ {
		for k, v := range l.x[r*d:][:d] {
			if v > y[k] || v != v {
				y[k], index[k] = v, int32(r-lo)
			}
		}
	}
}

func (l *reduceLoop[T]) spreadSegment(i int) {
	d, lo, hi := l.d, l.first[i], l.first[i+1]
	y := l.y[i*d:][:d]
	if !l.max {
		for r := lo; r < hi; r++ {
			copy(l.x[r*d:][:d], y)
		}
		return
	}
	l.ops.Fill(l.x[lo*d:hi*d], 0)
	for k, at := range l.index[i*d:][:d] {
		l.x[(lo+int(at))*d+k] = y[k]
	}
}
