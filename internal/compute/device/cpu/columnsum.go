package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// columnLoop adds the rows of x [rows, ld]. A piece is a block of rows, read in order as one stream, and has a row of
// partial sums; the pieces are added in order. Few columns are added in registers. Of long rows a piece is a strip of
// columns; the longer the rows, the wider, which streams better from memory.
type columnLoop[T vec.Float] struct {
	ops           *vec.Ops[T]
	strips        bool
	dst, x        []T
	cols, rows    int
	ld, per       int // rows of a block, or columns of a strip
	partial, ones []T // [pieces, cols], [per]
}

const (
	sumBlocks   = 32      // at most
	sumLeast    = 16      // rows of a block
	fewColumn   = 128     // columns that are added in registers
	wideSum     = 1 << 13 // columns that are added in strips
	leastStrip  = 512     // columns of a strip
	widestStrip = 4096
	sumStrips   = 64 // of long rows
)

// rowsOfSum is how many rows of the given width one partial sum takes: a function of the sizes alone.
func rowsOfSum(rows, width int) int {
	return max(sumLeast, pieces(rows, sumBlocks), group(width))
}

func (l *columnLoop[T]) Do(_, i int) {
	if l.strips {
		from := i * l.per
		to := min(l.cols, from+l.per)
		l.add(l.dst[from:to], from, 0, l.rows)
		return
	}
	lo, hi := i*l.per, min(l.rows, (i+1)*l.per)
	sum := l.partial[i*l.cols:][:l.cols]
	if l.cols <= fewColumn {
		l.ops.Mix(sum, l.ones[:hi-lo], l.x[lo*l.ld:], l.ld)
		return
	}
	l.add(sum, 0, lo, hi)
}

// add sets sum to the sum of rows [lo, hi) from a column on.
func (l *columnLoop[T]) add(sum []T, from, lo, hi int) {
	l.ops.Fill(sum, 0)
	for r := lo; r < hi; r++ {
		l.ops.Add(sum, sum, l.x[r*l.ld+from:][:len(sum)])
	}
}

func (d *dev[T]) ColumnSum(a device.ColumnSum) {
	d.columnSum(d.values(a.Dst), d.values(a.X), a.Rows, a.Columns)
}

// columnSum sets dst to the sums of the first columns of x [rows, ld].
func (d *dev[T]) columnSum(dst, x []T, rows, ld int) {
	l := &d.columns
	*l = columnLoop[T]{ops: d.ops, strips: len(dst) >= wideSum, dst: dst, x: x, rows: rows, cols: len(dst), ld: ld,
		per: rowsOfSum(rows, len(dst)), partial: l.partial, ones: l.ones}
	if l.strips {
		l.per = max(leastStrip, min(widestStrip, l.cols/sumStrips&^15))
		d.pool.For(pieces(l.cols, l.per), l)
		return
	}
	blocks := pieces(rows, l.per)
	scratch(&l.partial, blocks*l.cols)
	l.partial = l.partial[:cap(l.partial)]
	if l.cols <= fewColumn {
		d.ops.Fill(scratch(&l.ones, l.per), 1)
		l.ones = l.ones[:cap(l.ones)]
	}
	d.pool.For(blocks, l)
	d.ops.Fill(dst, 0)
	addRows(d.ops, dst, l.partial, blocks)
}
