package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// swapLoop copies x [A, B, Inner] to [B, A, Inner].
type swapLoop[T vec.Float] struct {
	a, b, inner, per int
	dst, x           []T
}

func (d *dev[T]) SwapAxes(a device.SwapAxes) {
	l := &d.swap
	*l = swapLoop[T]{a: a.A, b: a.B, inner: a.Inner, per: group(a.Inner), dst: d.values(a.Dst), x: d.values(a.X)}
	d.pool.For(pieces(a.A*a.B, l.per), l)
}

// Do writes a piece of the rows of dst.
func (l *swapLoop[T]) Do(_, i int) {
	for p := i * l.per; p < min(l.a*l.b, (i+1)*l.per); p++ {
		from := p%l.a*l.b + p/l.a
		copy(l.dst[p*l.inner:(p+1)*l.inner], l.x[from*l.inner:])
	}
}
