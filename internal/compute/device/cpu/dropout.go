package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/compute/vec"
)

// dropoutLoop is y = x·m/(1-p), m drawn by counter (device.Dropout; Salmon et al., SC 2011).
type dropoutLoop[T vec.Float] struct {
	ops    *vec.Ops[T]
	key    philox.Key
	step   uint64
	first  int
	limit  uint32 // words below drop their element
	factor T
	x, y   []T
	words  []uint32 // [workers, dropWords]
}

// Dropout computes that kernel.
func (d *dev[T]) Dropout(a device.Dropout) {
	step := d.integers(a.Step.View)
	l := &d.dropout
	*l = dropoutLoop[T]{ops: d.ops, words: l.words, key: a.Key,
		step: uint64(uint32(step[1]))<<32 | uint64(uint32(step[0])), first: a.First, limit: uint32(a.Rate * (1 << 32)),
		factor: T(1 / (1 - a.Rate)), y: d.values(a.Y), x: d.values(a.X)}
	wordScratch(&l.words, d.pool.Threads()*dropWords)
	d.blocks(len(l.y), l)
}

// dropWords is the number of draws made at a time.
const dropWords = 1024

func (l *dropoutLoop[T]) Do(worker, i int) {
	lo, hi := block(len(l.y), i)
	for ; lo < hi; lo += dropWords {
		to := min(hi, lo+dropWords)
		words := l.words[worker*dropWords:][:to-lo]
		l.key.Words(words, l.step, uint64(l.first+lo))
		l.ops.Drop(l.y[lo:to], l.x[lo:to], words, l.limit, l.factor)
	}
}
