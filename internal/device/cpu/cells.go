package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// cellLoop is one step of a GRU over rows, forward or back (device.GRUCellArgs).
type cellLoop[T vec.Float] struct {
	ops                            *vec.Ops[T]
	back                           bool
	n, h, per                      int
	gates, hidden, before, y, prev []T
	dy, carry, zeros               []T
}

// GRUCell implements device.Cells.
func (d *dev[T]) GRUCell(a device.GRUCellArgs) {
	positive("GRUCell", a.N, a.H)
	l := &d.cell
	*l = cellLoop[T]{ops: d.ops, n: a.N, h: a.H, per: group(4 * a.H),
		gates: d.floats("GRUCell Gates", a.Gates, a.N*4*a.H), hidden: d.floats("GRUCell Hidden", a.Hidden, a.N*3*a.H),
		before: d.floats("GRUCell Before", a.Before, a.N*a.H), y: d.floats("GRUCell Y", a.Y, a.N*a.H),
		prev: d.floats("GRUCell Prev", a.Prev, a.N*a.H)}
	d.pool.For(pieces(a.N, l.per), l)
}

// GRUCellGrad implements device.Cells.
func (d *dev[T]) GRUCellGrad(a device.GRUCellArgs) {
	positive("GRUCellGrad", a.N, a.H)
	l := &d.cell
	*l = cellLoop[T]{ops: d.ops, back: true, n: a.N, h: a.H, per: group(4 * a.H), zeros: d.gru.zeroRow(a.H),
		gates: d.floats("GRUCellGrad Gates", a.Gates, a.N*4*a.H), prev: d.floats("GRUCellGrad Prev", a.Prev, a.N*a.H),
		dy: d.optional("GRUCellGrad DY", a.DY, a.N*a.H), carry: d.floats("GRUCellGrad Carry", a.Carry, a.N*a.H)}
	d.pool.For(pieces(a.N, l.per), l)
}

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
