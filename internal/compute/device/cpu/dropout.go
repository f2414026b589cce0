package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// dropoutLoop is y = x·m/(1-p), m drawn by counter (device.DropoutParams; Salmon et al., SC 2011). A piece is some
// rows.
type dropoutLoop[T vec.Float] struct {
	ops        *vec.Ops[T]
	drop       drops[T]
	width, per int
	x, y       []T
	words      []uint32 // [workers, dropWords]
}

func (d *dev[T]) Dropout(a device.Dropout) {
	l := &d.dropout
	*l = dropoutLoop[T]{ops: d.ops, drop: d.drops(a.DropoutParams), width: a.Width, per: group(a.Width),
		x: d.values(a.X), y: d.values(a.Y), words: l.words}
	reserve(&l.words, d.pool.Threads()*dropWords)
	d.pool.For(pieces(len(l.drop.rows), l.per), l)
}

// dropWords is the number of draws made at a time.
const dropWords = 1024

func (l *dropoutLoop[T]) Do(worker, i int) {
	for r := i * l.per; r < min(len(l.drop.rows), (i+1)*l.per); r++ {
		x, y := l.x[r*l.width:(r+1)*l.width], l.y[r*l.width:(r+1)*l.width]
		for k := 0; k < l.width; k += dropWords {
			to := min(l.width, k+dropWords)
			words := l.words[worker*dropWords:][:to-k]
			l.drop.draw(words, r, k)
			l.drop.apply(l.ops, y[k:to], x[k:to], words)
		}
	}
}
