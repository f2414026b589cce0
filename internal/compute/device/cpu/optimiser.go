package cpu

import (
	"math"
	"sync/atomic"

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
	if cap(l.sums) < n {
		l.sums = make([]float64, n)
	}
	l.sums = l.sums[:n]
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
	ops           *vec.Ops[T]
	p, g, m, v    []T
	s             vec.AdamScalars[T]
	before, after []int32 // nil, or where the bits are added
}

func (l *adamLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.p), i)
	l.update(l.p[lo:hi], l.g[lo:hi], l.m[lo:hi], l.v[lo:hi])
}

// summed is how many values are updated at a time where their bits are added: they stay in the first cache between
// adding, updating and adding. With more, the wait for memory before the first sum is longer than what the processor
// asks for ahead (docs/log/verify.md).
const summed = 256

// update is Adam of some values.
func (l *adamLoop[T]) update(p, g, m, v []T) {
	if l.before == nil && l.after == nil {
		l.ops.Adam(p, g, m, v, &l.s)
		return
	}
	var before, after [2]uint32
	for lo := 0; lo < len(p); lo += summed {
		hi := min(len(p), lo+summed)
		l.add(&before, p[lo:hi], m[lo:hi], v[lo:hi])
		l.ops.Adam(p[lo:hi], g[lo:hi], m[lo:hi], v[lo:hi], &l.s)
		l.add(&after, p[lo:hi], m[lo:hi], v[lo:hi])
	}
	for i := range l.before {
		atomic.AddInt32(&l.before[i], int32(before[i]))
	}
	for i := range l.after {
		atomic.AddInt32(&l.after[i], int32(after[i]))
	}
}

// add adds the bits of some values.
func (l *adamLoop[T]) add(sums *[2]uint32, p, m, v []T) {
	middle := l.ops.Bits(m)
	sums[0] += l.ops.Bits(p) + middle
	sums[1] += middle + l.ops.Bits(v)
}

func (d *dev[T]) SumBits(a device.SumBits) {
	l := &d.bits
	l.ops, l.x, l.ints, l.sum = d.ops, nil, nil, 0
	if a.X.Buf.DType() == device.Int32 {
		l.ints = d.integers(a.X)
	} else {
		l.x = d.values(a.X)
	}
	d.blocks(a.X.N, l)
	d.integers(a.Sum)[0] += int32(l.sum)
}

// bitLoop adds the bits of each piece.
type bitLoop[T vec.Float] struct {
	ops  *vec.Ops[T]
	x    []T
	ints []int32
	sum  uint32
}

func (l *bitLoop[T]) Do(_, i int) {
	var sum uint32
	if l.ints != nil {
		lo, hi := block(len(l.ints), i)
		for _, x := range l.ints[lo:hi] {
			sum += uint32(x)
		}
	} else {
		lo, hi := block(len(l.x), i)
		sum = l.ops.Bits(l.x[lo:hi])
	}
	atomic.AddUint32(&l.sum, sum)
}

func (d *dev[T]) Adam(a device.Adam) {
	l, n := &d.adam, a.P.N
	l.ops = d.ops
	l.p, l.g = d.values(a.P), d.values(a.G)
	l.m, l.v = d.values(a.M), d.values(a.V)
	l.s = d.adamScalars(a)
	l.before, l.after = d.integers(a.Before), d.integers(a.After)
	d.blocks(n, l)
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
