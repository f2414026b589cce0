package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// LSH, LMH and the hinges of LSEH (fartashf/vsepp, model.py: ContrastiveLoss; yangong23/VSEnetworksLSEH:
// ContrastiveLossLSEH):
//
//	cs_ij = [M_ij + S_ij - S_ii]+    ci_ij = [M_ij + S_ij - S_jj]+    zero diagonals
//
// Three loops: the rows, which also initialise the gradient; strips of columns; the diagonal and the loss. Sums are
// float64 in a fixed order; the hinges themselves are in the device's type, so that ties are the ties of the scores.

// side holds one direction of a loss: per anchor its part of the loss, its share of the diagonal gradient, and the
// optional bookkeeping.
type side[T vec.Float] struct {
	part  []float64
	slope []float64
	index []int32
	cost  []T
}

func (s *side[T]) record(anchor, index int, cost T) {
	if s.index != nil {
		s.index[anchor] = int32(index)
	}
	if s.cost != nil {
		s.cost[anchor] = cost
	}
}

// lossState is what every loss over [N, N] scores needs.
type lossState[T vec.Float] struct {
	n            int
	s, grad      []T
	loss         []T
	row, column  side[T]
	memory       []float64
	perRow, wide int // rows and columns of one piece
}

// begin takes the views of a loss and clears the sums.
func (d *dev[T]) begin(l *lossState[T], n int, scores device.View, out device.LossOut) {
	l.n, l.perRow, l.wide = n, group(n), max(16, group(n))
	m := reserve(&l.memory, 4*n)
	clear(m)
	l.s, l.grad, l.loss = d.values(scores), d.values(out.Grad), d.values(out.Loss)
	l.row = side[T]{m[:n], m[n : 2*n], d.integers(out.HardCaption), d.values(out.CostCaption)}
	l.column = side[T]{m[2*n : 3*n], m[3*n : 4*n], d.integers(out.HardImage), d.values(out.CostImage)}
}

// finish adds the diagonal gradient and writes the loss, every part multiplied by scale.
func (l *lossState[T]) finish(scale float64) {
	var row, column float64
	for i := range l.n {
		row += l.row.part[i]
		column += l.column.part[i]
		l.grad[i*l.n+i] = T(scale * (l.row.slope[i] + l.column.slope[i]))
	}
	l.loss[0], l.loss[1], l.loss[2] = T(scale*(row+column)), T(scale*row), T(scale*column)
}

type hingeState[T vec.Float] struct {
	lossState[T]
	margin   T
	margins  []T
	max      bool
	positive []T     // [N] S_jj
	best     []T     // [N] greatest cost of each column so far
	at       []int32 // and its row
	rows     hingeRows[T]
	columns  hingeColumns[T]
}

func (d *dev[T]) Hinge(a device.Hinge) {
	l := &d.hinge
	d.begin(&l.lossState, a.N, a.Scores, a.LossOut)
	l.margin, l.margins, l.max = T(a.Margin), d.values(a.Margins), a.Max
	scratch(&l.best, a.N)
	for i, p := 0, scratch(&l.positive, a.N); i < a.N; i++ {
		p[i] = l.s[i*a.N+i]
	}
	reserve(&l.at, a.N)
	l.rows.hingeState, l.columns.hingeState = l, l
	d.pool.For(pieces(a.N, l.perRow), &l.rows)
	d.pool.For(pieces(a.N, l.wide), &l.columns)
	l.finish(1)
}

// marginRow returns the margins of row i, nil if the margin is constant.
func (l *hingeState[T]) marginRow(i int) []T {
	if l.margins == nil {
		return nil
	}
	return l.margins[i*l.n : (i+1)*l.n]
}

type hingeRows[T vec.Float] struct{ *hingeState[T] }

func (l *hingeRows[T]) Do(_, k int) {
	n := l.n
	for i := k * l.perRow; i < min(n, (k+1)*l.perRow); i++ {
		s, grad, margins, margin := l.s[i*n:(i+1)*n], l.grad[i*n:(i+1)*n], l.marginRow(i), l.margin
		positive := s[i]
		var sum, count float64
		var best T
		at, open := 0, false // whether the gradient flows at the maximum
		for j := range s {
			grad[j] = 0
			if j == i {
				continue
			}
			if margins != nil {
				margin = margins[j]
			}
			cost := margin + s[j] - positive
			if j == 0 {
				open = cost >= 0
			}
			if cost < 0 {
				continue
			}
			if !l.max {
				sum += float64(cost)
				count++
				grad[j] = 1
			}
			if cost > best || cost != cost { // NaN stays, so that it shows in the loss
				best, at, open = cost, j, true
			}
		}
		if l.max {
			sum = float64(best)
			if open {
				grad[at], count = 1, 1
			}
		}
		l.row.part[i], l.row.slope[i] = sum, 0-count
		l.row.record(i, at, best)
	}
}

type hingeColumns[T vec.Float] struct{ *hingeState[T] }

func (l *hingeColumns[T]) Do(_, k int) {
	n, lo, hi := l.n, k*l.wide, min(l.n, (k+1)*l.wide)
	best, at := l.best[:n], l.at[:n]
	for j := lo; j < hi; j++ {
		best[j], at[j] = 0, -1 // no row with a gradient so far
	}
	for i := range n {
		s, grad, margins, margin := l.s[i*n:(i+1)*n], l.grad[i*n:(i+1)*n], l.marginRow(i), l.margin
		for j := lo; j < hi; j++ {
			if j == i {
				continue
			}
			if margins != nil {
				margin = margins[j]
			}
			cost := margin + s[j] - l.positive[j]
			if cost < 0 {
				continue
			}
			if !l.max {
				l.column.part[j] += float64(cost)
				l.column.slope[j]--
				grad[j]++
			}
			if cost > best[j] || cost != cost || i == 0 {
				best[j], at[j] = cost, int32(i)
			}
		}
	}
	for j := lo; j < hi; j++ {
		if l.max {
			l.column.part[j] = float64(best[j])
			if at[j] >= 0 {
				l.grad[int(at[j])*n+j]++
				l.column.slope[j] = -1
			}
		}
		l.column.record(j, int(max(0, at[j])), best[j])
	}
}
