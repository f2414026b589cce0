package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// squareLoop sums the squares of each piece in float64; the pieces are added in order.
type squareLoop[T vec.Float] struct {
	ops  *vec.Ops[T]
	x    []T
	sums []float64
}

func (l *squareLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.x), i)
	l.sums[i] = l.ops.Sumsq(l.x[lo:hi])
}

func (d *dev[T]) SumSquares(a device.SumSquares) {
	l := &d.squares
	l.ops, l.x = d.ops, d.values(a.X)
	sum := d.values(a.Sum)
	n := pieces(a.X.N, blockSize(a.X.N))
	l.sums = reserve(&l.sums, n)
	d.pool.For(n, l)
	var total float64
	for _, s := range l.sums {
		total += s
	}
	sum[0] = T(float64(sum[0]) + total)
}

func (d *dev[T]) ClipCoefficient(a device.ClipCoefficient) {
	n := math.Sqrt(float64(d.values(a.SumSquares)[0]))
	d.values(a.Norm)[0] = T(n)
	d.values(a.Coefficient)[0] = T(min(1, a.Most/(n+1e-6)))
}

// adamLoop is the update of device.Adam over one piece.
type adamLoop[T vec.Float] struct {
	ops        *vec.Ops[T]
	p, g, m, v []T
	s          vec.AdamScalars[T]
}

func (l *adamLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.p), i)
	l.ops.Adam(l.p[lo:hi], l.g[lo:hi], l.m[lo:hi], l.v[lo:hi], &l.s)
}

func (d *dev[T]) Adam(a device.Adam) {
	l := &d.adam
	*l = adamLoop[T]{d.ops, d.values(a.P), d.values(a.G), d.values(a.M), d.values(a.V), d.adamScalars(a)}
	d.blocks(a.P.N, l)
}

// adamScalars reads the numbers of an update from device memory.
func (d *dev[T]) adamScalars(a device.Adam) vec.AdamScalars[T] {
	hyper := d.values(a.Hyper)
	s := vec.AdamScalars[T]{Clip: 1, B1: T(a.Beta1), C1: T(1 - a.Beta1), B2: T(a.Beta2), C2: T(1 - a.Beta2),
		Step: hyper[0], Inv: hyper[1], Eps: T(a.Eps), Decay: hyper[2]}
	if a.Legacy {
		s.Step, s.Inv = hyper[0]/hyper[1], 1
	}
	if clip := d.values(a.Clip); clip != nil {
		s.Clip = clip[0]
	}
	return s
}
