package cpu

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Word vectors of a batch in packed order, and their gradient.

type gatherLoop[T vec.Float] struct {
	a          device.GatherWords
	pack       *device.Packing
	rows       []int32 // word of each packed row
	table, out []T
	per        int
}

// wordRows lists the word of every packed row.
func (d *dev[T]) wordRows(what string, a *device.GatherWords) []int32 {
	l := &d.gather
	l.pack = a.Lengths.Packing()
	words := d.integers(a.Words.View)
	l.rows = l.rows[:0]
	for t := range l.pack.Steps() {
		for i := range l.pack.Active(t) {
			w := words[i*a.L+t]
			if w < 0 || int(w) >= a.V {
				panic(fmt.Sprintf("cpu: %s: word id %d of caption %d at %d, expected less than V = %d", what, w, i, t,
					a.V))
			}
			l.rows = append(l.rows, w)
		}
	}
	return l.rows
}

func (d *dev[T]) GatherWords(a device.GatherWords) {
	rows := d.wordRows("GatherWords", &a)
	l := &d.gather
	l.a, l.per = a, group(a.D)
	l.table, l.out = d.values(a.Table), d.values(a.Out)
	d.pool.For(pieces(len(rows), l.per), l)
}

func (l *gatherLoop[T]) Do(_, i int) {
	n := l.a.D
	for p := i * l.per; p < min(len(l.rows), (i+1)*l.per); p++ {
		w := int(l.rows[p])
		copy(l.out[p*n:(p+1)*n], l.table[w*n:])
	}
}

// scatterLoop adds rows to the rows of a table of their numbers. It gives each piece a range of the table, so that what
// belongs to one row is added in order.
type scatterLoop[T vec.Float] struct {
	ops        *vec.Ops[T]
	rows       []int32
	table, out []T
	v, d       int
}

const scatterPieces = 16

func (d *dev[T]) GatherWordsGrad(a device.GatherWords) {
	scatterRows(d, d.values(a.Table), d.values(a.Out), d.wordRows("GatherWordsGrad", &a), a.V, a.D)
}

// scatterRows sets a table [v, width] to the sums of the rows of out that have the numbers of its rows; nil is none.
func scatterRows[T vec.Float](d *dev[T], table, out []T, rows []int32, v, width int) {
	if table == nil {
		return
	}
	l := &d.scatter
	*l = scatterLoop[T]{ops: d.ops, rows: rows, v: v, d: width, table: table, out: out}
	d.pool.For(scatterPieces, l)
}

func (l *scatterLoop[T]) Do(_, i int) {
	lo, hi := i*l.v/scatterPieces, (i+1)*l.v/scatterPieces
	l.ops.Fill(l.table[lo*l.d:hi*l.d], 0)
	for p, w := range l.rows {
		if int(w) >= lo && int(w) < hi {
			row := l.table[int(w)*l.d : (int(w)+1)*l.d]
			l.ops.Add(row, row, l.out[p*l.d:(p+1)*l.d])
		}
	}
}
