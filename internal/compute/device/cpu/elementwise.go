package cpu

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

type elementKind uint8

const (
	elementAdd elementKind = iota
	elementMultiply
	elementScale
	elementSum
	elementMap
	elementSlope
)

// elementLoop is dst = a + b, a∘b, alpha·a, alpha·a + beta·b, f(a) or b·f'(a).
type elementLoop[T vec.Float] struct {
	ops         *vec.Ops[T]
	kind        elementKind
	f           vec.Map
	alpha, beta T
	dst, a, b   []T
}

func (l *elementLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.dst), i)
	switch l.kind {
	case elementAdd:
		l.ops.Add(l.dst[lo:hi], l.a[lo:hi], l.b[lo:hi])
	case elementMultiply:
		l.ops.Mul(l.dst[lo:hi], l.a[lo:hi], l.b[lo:hi])
	case elementScale:
		l.ops.Scale(l.dst[lo:hi], l.a[lo:hi], l.alpha)
	case elementSum:
		l.ops.Sum2(l.dst[lo:hi], l.a[lo:hi], l.b[lo:hi], l.alpha, l.beta)
	case elementMap:
		l.ops.Map[l.f](l.dst[lo:hi], l.a[lo:hi])
	case elementSlope:
		l.ops.Slope[l.f](l.dst[lo:hi], l.a[lo:hi], l.b[lo:hi])
	}
}

func elementwise[T vec.Float](d *dev[T], kind elementKind, dst, a, b device.View) *elementLoop[T] {
	l := &d.elements
	*l = elementLoop[T]{ops: d.ops, kind: kind, dst: d.values(dst), a: d.values(a), b: d.values(b)}
	return l
}

func (d *dev[T]) Add(a device.Add) { d.blocks(a.Dst.N, elementwise(d, elementAdd, a.Dst, a.A, a.B)) }

func (d *dev[T]) Multiply(a device.Multiply) {
	d.blocks(a.Dst.N, elementwise(d, elementMultiply, a.Dst, a.A, a.B))
}

func (d *dev[T]) Scale(a device.Scale) {
	l := elementwise(d, elementScale, a.Dst, a.X, device.View{})
	l.alpha = d.values(a.Factor)[0]
	d.blocks(a.Dst.N, l)
}

func (d *dev[T]) Combine(a device.Combine) {
	l := elementwise(d, elementScale, a.Dst, a.A, a.B)
	if l.alpha, l.beta = T(a.Alpha), T(a.Beta); l.b != nil {
		l.kind = elementSum
	}
	d.blocks(a.Dst.N, l)
}

func (d *dev[T]) Activate(a device.Activate) {
	l := elementwise(d, elementMap, a.Y, a.X, device.View{})
	l.f = mapOf(a.F)
	d.blocks(a.Y.N, l)
}

func (d *dev[T]) ActivateGrad(a device.Activate) {
	of := a.X
	if a.F == device.Tanh || a.F == device.Sigmoid {
		of = a.Y
	}
	l := elementwise(d, elementSlope, a.DX, of, a.DY)
	l.f = mapOf(a.F)
	d.blocks(a.DX.N, l)
}

func mapOf(f device.Activation) vec.Map {
	switch f {
	case device.ReLU:
		return vec.ReLU
	case device.Tanh:
		return vec.Tanh
	case device.Sigmoid:
		return vec.Sigmoid
	case device.Abs:
		return vec.Abs
	case device.GELU:
		return vec.GELU
	}
	panic(fmt.Sprintf("cpu: unknown function %d", f))
}
