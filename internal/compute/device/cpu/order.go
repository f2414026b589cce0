package cpu

import (
	"math"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Order embeddings (Vendrov et al. 2016; VSE++, model.py order_sim): S_ij = -‖max(0, c_j - i_i)‖₂ and, with
// e = max(0, c_j - i_i), dS_ij/dc_j = -e/‖e‖ = -dS_ij/di_i; 0 where e = 0.

type orderLoop[T vec.Float] struct {
	ops          *vec.Ops[T]
	b, c, d, per int
	im, cap, s   []T
}

func (d *dev[T]) OrderScores(a device.OrderScores) {
	l := &d.orders
	*l = orderLoop[T]{ops: d.ops, b: a.B, c: a.C, d: a.D, per: group(a.C * a.D), im: d.values(a.Images),
		cap: d.values(a.Captions), s: d.values(a.Scores)}
	d.pool.For(pieces(a.B, l.per), l)
}

func (l *orderLoop[T]) Do(_, k int) {
	for i := k * l.per; i < min(l.b, (k+1)*l.per); i++ {
		im := l.im[i*l.d : (i+1)*l.d]
		for j := range l.c {
			l.s[i*l.c+j] = T(-math.Sqrt(l.ops.Order(l.cap[j*l.d:(j+1)*l.d], im)))
		}
	}
}

// orderGradLoop has one item per image and one per caption, each of which sums over the other side in order.
type orderGradLoop[T vec.Float] struct {
	ops           *vec.Ops[T]
	b, c, d, per  int
	im, cap       []T
	s, ds, di, dc []T
}

func (d *dev[T]) OrderScoresGrad(a device.OrderScores) {
	l := &d.orderGrads
	*l = orderGradLoop[T]{ops: d.ops, b: a.B, c: a.C, d: a.D, per: group(max(a.B, a.C) * a.D), im: d.values(a.Images),
		cap: d.values(a.Captions), s: d.values(a.Scores), ds: d.values(a.DScores), di: d.values(a.DImages),
		dc: d.values(a.DCaptions)}
	d.pool.For(pieces(a.B+a.C, l.per), l)
}

func (l *orderGradLoop[T]) Do(_, k int) {
	for n := k * l.per; n < min(l.b+l.c, (k+1)*l.per); n++ {
		if n < l.b && l.di != nil {
			l.accumulate(l.di[n*l.d:(n+1)*l.d], n, n+1, 0, l.c, 1)
		} else if n >= l.b && l.dc != nil {
			l.accumulate(l.dc[(n-l.b)*l.d:(n-l.b+1)*l.d], 0, l.b, n-l.b, n-l.b+1, -1)
		}
	}
}

// accumulate sets dst = sign·Σ dS_ij·e_ij/‖e_ij‖ over a row or a column of scores.
func (l *orderGradLoop[T]) accumulate(dst []T, i0, i1, j0, j1 int, sign T) {
	l.ops.Fill(dst, 0)
	for i := i0; i < i1; i++ {
		for j := j0; j < j1; j++ {
			norm, g := -l.s[i*l.c+j], l.ds[i*l.c+j]
			if norm > 0 && g != 0 {
				l.ops.Hinge(dst, l.cap[j*l.d:(j+1)*l.d], l.im[i*l.d:(i+1)*l.d], sign*g/norm)
			}
		}
	}
}
