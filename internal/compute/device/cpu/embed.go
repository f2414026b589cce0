package cpu

import (
	"fmt"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Embeddings of BERT and their gradients (device.Embed).

type embedLoop[T vec.Float] struct {
	ops                   *vec.Ops[T]
	d, per                int
	rows, at              []int32 // word and position of each row
	word, position, kinds []T
	out                   []T
}

// embedRows lists the word and position of every row.
func (d *dev[T]) embedRows(what string, a *device.Embed) *embedLoop[T] {
	l := &d.embed
	l.ops, l.d, l.per, l.rows, l.at = d.ops, a.D, group(a.D), l.rows[:0], l.at[:0]
	words := d.integers(a.Words.View)
	for b, n := range a.Lengths.Host {
		for t, w := range words[b*a.L:][:n] {
			if w < 0 || int(w) >= a.V {
				panic(fmt.Sprintf("cpu: %s: word id %d of caption %d at %d, expected less than V = %d", what, w, b, t,
					a.V))
			}
			l.rows, l.at = append(l.rows, w), append(l.at, int32(t))
		}
	}
	l.out = d.values(a.Out)
	return l
}

func (d *dev[T]) Embed(a device.Embed) {
	l := d.embedRows("Embed", &a)
	l.word, l.position = d.values(a.Word), d.values(a.Position)
	l.kinds = d.values(a.Type)
	d.pool.For(pieces(len(l.rows), l.per), l)
}

func (l *embedLoop[T]) Do(_, i int) {
	n := l.d
	for r := i * l.per; r < min(len(l.rows), (i+1)*l.per); r++ {
		out := l.out[r*n : (r+1)*n]
		l.ops.Add(out, l.word[int(l.rows[r])*n:][:n], l.position[int(l.at[r])*n:][:n])
		l.ops.Add(out, out, l.kinds[:n])
	}
}

func (d *dev[T]) EmbedGrad(a device.Embed) {
	rows := d.embedRows("EmbedGrad", &a)
	scatterRows(d, d.values(a.Word), rows.out, rows.rows, a.V, a.D)
	scatterRows(d, d.values(a.Position), rows.out, rows.at, a.P, a.D)
	if kinds := d.values(a.Type); kinds != nil {
		d.ops.Fill(kinds, 0)
		d.columnSum(kinds[:a.D], rows.out, len(rows.rows), a.D)
	}
}
