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
	elementMap
)

// elementLoop is dst = a + b, dst = a∘b, dst = factor·a or dst = f(a).
type elementLoop[T vec.Float] struct {
	ops       *vec.Ops[T]
	kind      elementKind
	f         vec.Map
	factor    T
	dst, a, b []T
}

func (l *elementLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.dst), i)
	switch l.kind {
	case elementAdd:
		l.ops.Add(l.dst[lo:hi], l.a[lo:hi], l.b[lo:hi])
	case elementMultiply:
		l.ops.Mul(l.dst[lo:hi], l.a[lo:hi], l.b[lo:hi])
	case elementScale:
		l.ops.Scale(l.dst[lo:hi], l.a[lo:hi], l.factor)
	case elementMap:
		l.ops.Map[l.f](l.dst[lo:hi], l.a[lo:hi])
	}
}

// Add computes that kernel.
func (d *dev[T]) Add(dst, a, b device.View) {
	l := &d.elements
	*l = elementLoop[T]{ops: d.ops, kind: elementAdd, dst: d.values(dst),
		a: d.values(a), b: d.values(b)}
	d.blocks(dst.N, l)
}

// Scale computes that kernel.
func (d *dev[T]) Scale(dst, x, factor device.View) {
	l := &d.elements
	*l = elementLoop[T]{ops: d.ops, kind: elementScale, dst: d.values(dst),
		a: d.values(x), factor: d.values(factor)[0]}
	d.blocks(dst.N, l)
}

// Activate computes that kernel.
func (d *dev[T]) Activate(f device.Activation, y, x device.View) {
	l := &d.elements
	*l = elementLoop[T]{ops: d.ops, kind: elementMap, f: mapOf(f), dst: d.values(y),
		a: d.values(x)}
	d.blocks(y.N, l)
}

// slopeLoop is dx = dy·f'.
type slopeLoop[T vec.Float] struct {
	ops        *vec.Ops[T]
	f          vec.Map
	dx, of, dy []T
}

func (l *slopeLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.dx), i)
	l.ops.Slope[l.f](l.dx[lo:hi], l.of[lo:hi], l.dy[lo:hi])
}

// ActivateGrad computes that kernel.
func (d *dev[T]) ActivateGrad(f device.Activation, dx, x, y, dy device.View) {
	l := &d.slopes
	*l = slopeLoop[T]{ops: d.ops, f: mapOf(f), dx: d.values(dx),
		dy: d.values(dy)}
	if f == device.Tanh || f == device.Sigmoid {
		l.of = d.values(y)
	} else {
		l.of = d.values(x)
	}
	d.blocks(dx.N, l)
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
