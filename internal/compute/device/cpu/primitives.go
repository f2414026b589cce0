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
	x, y, dy, dx []T
}

func (d *dev[T]) Map(a device.Map) {
	l := d.beginMap(a)
	d.blocks(len(l.x), l)
}

func (d *dev[T]) MapGrad(a device.Map) {
	l := d.beginMap(a)
	l.dy, l.dx = d.values(a.DY), d.values(a.DX)
	d.blocks(len(l.x), l)
}

func (d *dev[T]) beginMap(a device.Map) *mapLoop[T] {
	l := &d.maps
	*l = mapLoop[T]{ops: d.ops, f: a.F, c: T(a.C), x: d.values(a.X), y: d.values(a.Y)}
	return l
}

func (l *mapLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.x), i)
	if l.dx != nil {
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
	ops    *vec.Ops[T]
	max    bool
	spread bool
	n, d   int
	first  []int // of segments: the first row of each, and the total; nil along rows
	x, y   []T
	index  []int32
}

// Reduce computes that kernel and its gradient.
func (d *dev[T]) Reduce(a device.Reduce) {
	l := &d.reductions
	*l = reduceLoop[T]{ops: d.ops, max: a.Max, spread: a.Grad, n: a.N, d: a.D}
	count := pieces(a.N, group(a.D))
	if a.Segmented() {
		l.first, count = d.firstRows(a.Counts.Host), len(a.Counts.Host)
	}
	l.x, l.y = d.values(a.X), d.values(a.Y)
	if a.Max {
		l.index = d.integers(a.Index)
	}
	d.pool.For(count, l)
}

// firstRows returns the first row of each segment, and the total, in memory that the next call reuses.
func (d *dev[T]) firstRows(counts []int32) []int {
	first := append(d.segmentFirst[:0], 0)
	for i, c := range counts {
		first = append(first, first[i]+int(c))
	}
	d.segmentFirst = first
	return first
}

func (l *reduceLoop[T]) Do(_, i int) {
	switch {
	case l.first == nil:
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
		var s0, s1, s2, s3 T
		for len(x) >= 4 {
			s0, s1, s2, s3 = s0+x[0], s1+x[1], s2+x[2], s3+x[3]
			x = x[4:]
		}
		for _, v := range x {
			s0 += v
		}
		l.y[r] = (s0 + s1) + (s2 + s3)
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
