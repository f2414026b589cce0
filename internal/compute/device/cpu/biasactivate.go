package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// biasActivateLoop is dx = dy·f'(x), then y = f(x) where there is a y, and the sums of the columns of dx, all while
// they are in the level-1 cache. A piece is a block of rows, and has a row of partial sums.
type biasActivateLoop[T vec.Float] struct {
	ops          *vec.Ops[T]
	f            vec.Map
	dx, x, dy, y []T
	rows, cols   int
	per          int
	partial      []T // [pieces, cols] or nil
}

// activateStrip is how many columns are worked on at a time.
const activateStrip = 1024

func (d *dev[T]) BiasActivate(a device.BiasActivate) {
	l := &d.biasActivate
	partial := l.partial
	*l = biasActivateLoop[T]{ops: d.ops, f: mapOf(a.F), dx: d.values(a.DX), dy: d.values(a.DY),
		x: d.values(a.X), y: d.values(a.Y), rows: a.M, cols: a.N}
	dbias := d.values(a.DBias)
	l.per = rowsOfSum(a.M, a.N)
	blocks := pieces(a.M, l.per)
	if dbias != nil {
		l.partial = scratch(&partial, blocks*a.N)
	}
	d.pool.For(blocks, l)
	if dbias != nil {
		d.ops.Fill(dbias, 0)
		addRows(d.ops, dbias, l.partial, blocks)
	}
	l.partial = partial
}

func (l *biasActivateLoop[T]) Do(_, i int) {
	lo, hi := i*l.per, min(l.rows, (i+1)*l.per)
	if l.partial == nil && l.cols < activateStrip { // short rows, one call for all
		l.piece(lo*l.cols, hi*l.cols)
		return
	}
	for from := 0; from < l.cols; from += activateStrip {
		to := min(l.cols, from+activateStrip)
		var sum []T
		if l.partial != nil {
			sum = l.partial[i*l.cols+from : i*l.cols+to]
			l.ops.Fill(sum, 0)
		}
		for r := lo; r < hi; r++ {
			at := r * l.cols
			l.piece(at+from, at+to)
			if sum != nil {
				l.ops.Add(sum, sum, l.dx[at+from:at+to])
			}
		}
	}
}

// piece works on elements [lo, hi).
func (l *biasActivateLoop[T]) piece(lo, hi int) {
	dx, x, dy := l.dx[lo:hi], l.x[lo:hi], l.dy[lo:hi]
	switch {
	case l.y == nil:
		l.ops.Slope[l.f](dx, x, dy)
	case l.f == vec.GELU:
		l.ops.GELUGrad(dx, l.y[lo:hi], x, dy)
	default:
		l.ops.Slope[l.f](dx, x, dy)
		l.ops.Map[l.f](l.y[lo:hi], x)
	}
}
