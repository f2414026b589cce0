package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// y = x/(‖x‖+ε) over the middle axis of x [Outer, N, Inner] and its gradient
//
//	dx = dy/(‖x‖+ε) - x·(x·dy)/(‖x‖·(‖x‖+ε)²)
//
// At ‖x‖ = 0 the gradient is dy/ε, the derivative of the formula, and 0 for ε = 0, where y is defined as 0
// (quirk Q12). The references: l2norm, without and with an epsilon.

type normLoop[T vec.Float] struct {
	ops              *vec.Ops[T]
	a                device.L2Norm
	per              int // outer items of one piece
	x, y, nm, dy, dx []T
	scratch          []T // [workers, 2, Inner]: back, the two factors of every column
}

func (d *dev[T]) L2NormGrad(a device.L2Norm) { d.L2Norm(a) }

func (d *dev[T]) L2Norm(a device.L2Norm) {
	l := &d.norms
	*l = normLoop[T]{ops: d.ops, a: a, per: group(a.N * a.Inner), scratch: l.scratch, x: d.values(a.X),
		y: d.values(a.Y), nm: d.values(a.Norm), dy: d.values(a.DY), dx: d.values(a.DX)}
	scratch(&l.scratch, d.pool.Threads()*2*a.Inner)
	d.pool.For(pieces(a.Outer, l.per), l)
}

func (l *normLoop[T]) Do(worker, i int) {
	if l.a.Grad {
		l.gradient(worker, i)
		return
	}
	n, inner := l.a.N, l.a.Inner
	for o := i * l.per; o < min(l.a.Outer, (i+1)*l.per); o++ {
		x, y, norm := l.x[o*n*inner:(o+1)*n*inner], l.y[o*n*inner:(o+1)*n*inner], l.nm[o*inner:(o+1)*inner]
		if inner == 1 {
			r := math.Sqrt(l.ops.Sumsq(x))
			norm[0] = T(r)
			l.ops.Scale(y, x, T(inverse(r+l.a.Eps)))
			continue
		}
		l.ops.Fill(norm, 0)
		for k := range n {
			l.ops.MAdd(norm, x[k*inner:(k+1)*inner], x[k*inner:(k+1)*inner])
		}
		first := y[:inner] // holds the inverses until the last row is scaled
		for j, s := range norm {
			r := math.Sqrt(float64(s))
			norm[j] = T(r)
			first[j] = T(inverse(r + l.a.Eps))
		}
		for k := n - 1; k >= 0; k-- {
			l.ops.Mul(y[k*inner:(k+1)*inner], x[k*inner:(k+1)*inner], first)
		}
	}
}

// inverse is 1/x, and 0 at 0.
func inverse(x float64) float64 {
	if x == 0 {
		return 0
	}
	return 1 / x
}

func (l *normLoop[T]) gradient(worker, i int) {
	n, inner := l.a.N, l.a.Inner
	along := l.scratch[worker*2*inner:][:inner]
	across := l.scratch[(worker*2+1)*inner:][:inner]
	for o := i * l.per; o < min(l.a.Outer, (i+1)*l.per); o++ {
		at := o * n * inner
		x, dy, dx, norm := l.x[at:at+n*inner], l.dy[at:at+n*inner], l.dx[at:at+n*inner], l.nm[o*inner:(o+1)*inner]
		if inner == 1 {
			u, v := normFactors(float64(norm[0]), l.ops.Dot(x, dy), l.a.Eps)
			l.ops.Sum2(dx, dy, x, T(u), T(v))
			continue
		}
		l.ops.Fill(across, 0)
		for k := 0; k < len(x); k += inner {
			l.ops.MAdd(across, x[k:k+inner], dy[k:k+inner])
		}
		for j := range inner {
			u, v := normFactors(float64(norm[j]), float64(across[j]), l.a.Eps)
			along[j], across[j] = T(u), T(v)
		}
		for k := 0; k < len(x); k += inner {
			l.ops.Mul(dx[k:k+inner], dy[k:k+inner], along)
			l.ops.MAdd(dx[k:k+inner], x[k:k+inner], across)
		}
	}
}

// normFactors returns u and v of the gradient dx = u·dy + v·x of x/(‖x‖ + ε), from ‖x‖ and x·dy.
func normFactors(norm, dot, eps float64) (u, v float64) {
	u = inverse(norm + eps)
	if norm > 0 {
		v = -dot * u * u / norm
	}
	return u, v
}
