package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// LUWM, the self-similarity polynomial loss (Wei et al., CVPR 2020; wayne980/PolyLoss):
// for each anchor with p < 1 - 1e-5 whose hardest negative v satisfies v + margin > p,
//
//	[P0 + P1·p + P2·p²]+ + [N0 + N1·v + N2·v²]+
//
// summed over rows and columns and divided by N. The gradient flows where a bracket is ≥ 0. The bookkeeping holds the
// index of v (0 for a skipped anchor) and the negative bracket.

type universalState[T vec.Float] struct {
	lossState[T]
	a       device.UniversalWeighting
	best    []T
	at      []int32
	rows    universalRows[T]
	columns universalColumns[T]
}

func (d *dev[T]) UniversalWeighting(a device.UniversalWeighting) {
	l := &d.universal
	d.begin(&l.lossState, a.N, a.Scores, a.LossOut)
	l.a = a
	scratch(&l.best, a.N)
	reserve(&l.at, a.N)
	l.rows.universalState, l.columns.universalState = l, l
	d.pool.For(pieces(a.N, l.perRow), &l.rows)
	d.pool.For(pieces(a.N, l.wide), &l.columns)
	l.finish(1 / float64(a.N))
}

// anchor adds the terms of one anchor with positive p and hardest negative v at index at (-1: none), and returns the
// gradient with respect to v.
func (l *universalState[T]) anchor(s *side[T], i int, p, v T, at int) float64 {
	if at < 0 || float64(p) >= 1-1e-5 || v+T(l.a.Margin) <= p {
		s.record(i, 0, 0)
		return 0
	}
	positive, dp := quadratic(l.a.Positive, float64(p))
	negative, dv := quadratic(l.a.Negative, float64(v))
	s.part[i], s.slope[i] = positive+negative, dp
	s.record(i, at, T(negative))
	return dv / float64(l.n)
}

// quadratic returns [c0 + c1·x + c2·x²]+ and its derivative.
func quadratic(c [3]float64, x float64) (value, slope float64) {
	value = c[0] + c[1]*x + c[2]*x*x
	if value < 0 {
		return 0, 0
	}
	return value, c[1] + 2*c[2]*x
}

type universalRows[T vec.Float] struct{ *universalState[T] }

func (l *universalRows[T]) Do(_, k int) {
	n := l.n
	for i := k * l.perRow; i < min(n, (k+1)*l.perRow); i++ {
		s, grad := l.s[i*n:(i+1)*n], l.grad[i*n:(i+1)*n]
		var best T
		at := -1
		for j, v := range s {
			grad[j] = 0
			if j != i && (at < 0 || v > best || v != v) {
				best, at = v, j
			}
		}
		if g := l.anchor(&l.row, i, s[i], best, at); g != 0 {
			grad[at] = T(g)
		}
	}
}

type universalColumns[T vec.Float] struct{ *universalState[T] }

func (l *universalColumns[T]) Do(_, k int) {
	n, lo, hi := l.n, k*l.wide, min(l.n, (k+1)*l.wide)
	best, at := l.best[:n], l.at[:n]
	for j := lo; j < hi; j++ {
		at[j] = -1
	}
	for i := range n {
		s := l.s[i*n : (i+1)*n]
		for j := lo; j < hi; j++ {
			if j != i && (at[j] < 0 || s[j] > best[j] || s[j] != s[j]) {
				best[j], at[j] = s[j], int32(i)
			}
		}
	}
	for j := lo; j < hi; j++ {
		if g := l.anchor(&l.column, j, l.s[j*n+j], best[j], int(at[j])); g != 0 {
			l.grad[int(at[j])*n+j] += T(g)
		}
	}
}
