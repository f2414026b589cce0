package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// cellLoop is one step of a GRU over rows, forward or back (device.GRUCell).
type cellLoop[T vec.Float] struct {
	ops                            *vec.Ops[T]
	back                           bool
	n, h, per                      int
	gates, hidden, before, y, prev []T
	dy, carry, zeros               []T
}

func (d *dev[T]) GRUCell(a device.GRUCell) {
	l := &d.cell
	*l = cellLoop[T]{ops: d.ops, back: a.Grad, n: a.N, h: a.H, per: group(4 * a.H), zeros: d.gru.zeroRow(a.H),
		gates: d.values(a.Gates), hidden: d.values(a.Hidden), before: d.values(a.Before), y: d.values(a.Y),
		prev: d.values(a.Prev), dy: d.values(a.DY), carry: d.values(a.Carry)}
	d.pool.For(pieces(a.N, l.per), l)
}

func (d *dev[T]) GRUCellGrad(a device.GRUCell) { d.GRUCell(a) }

func (l *cellLoop[T]) Do(_, i int) {
	h := l.h
	for r := i * l.per; r < min(l.n, (i+1)*l.per); r++ {
		gates, prev := l.gates[r*4*h:(r+1)*4*h], l.prev[r*h:(r+1)*h]
		if !l.back {
			l.ops.GRUCell(gates, l.hidden[r*3*h:(r+1)*3*h], l.before[r*h:(r+1)*h], l.y[r*h:(r+1)*h], prev)
			continue
		}
		dy := l.zeros
		if l.dy != nil {
			dy = l.dy[r*h : (r+1)*h]
		}
		l.ops.GRUCellGrad(gates, prev, dy, l.carry[r*h:(r+1)*h])
	}
}
