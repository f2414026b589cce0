package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// columnLoop adds the rows of x [rows, ld] in order; a piece is one strip of columns, narrow enough that its sums
// stay in the first cache. Long rows have wider strips, which stream better from memory.
type columnLoop[T vec.Float] struct {
	ops      *vec.Ops[T]
	dst, x   []T
	rows, ld int
	strip    int
}

const leastStrip, widestStrip, longStrips = 512, 4096, 64

func (l *columnLoop[T]) Do(_, i int) {
	lo := i * l.strip
	hi := min(len(l.dst), lo+l.strip)
	sum := l.dst[lo:hi]
	l.ops.Fill(sum, 0)
	for r := range l.rows {
		l.ops.Add(sum, sum, l.x[r*l.ld+lo:r*l.ld+hi])
	}
}

// ColumnSum implements device.Rows.
func (d *dev[T]) ColumnSum(dst, x device.View, rows, cols int) {
	positive("ColumnSum cols", cols)
	d.columnSum(d.floats("ColumnSum dst", dst, cols), d.floats("ColumnSum x", x, rows*cols), rows, cols)
}

func (d *dev[T]) columnSum(dst, x []T, rows, ld int) {
	l := &d.columns
	*l = columnLoop[T]{ops: d.ops, dst: dst, x: x, rows: rows, ld: ld, strip: max(leastStrip, min(widestStrip, len(dst)/longStrips&^15))}
	d.pool.For(pieces(len(dst), l.strip), l)
}
