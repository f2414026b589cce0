package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/compute/vec"
)

// drops is dropout inside a kernel (device.DropoutParams); the zero value keeps everything.
type drops[T vec.Float] struct {
	key    philox.Key
	step   uint64
	limit  uint32 // words below drop their element
	factor T      // 1/(1 - rate), 0 without dropout
	rows   []int32
}

// drops reads the arguments.
func (d *dev[T]) drops(a device.DropoutParams) drops[T] {
	if a.Rate == 0 {
		return drops[T]{}
	}
	step := d.integers(a.Step.View)
	return drops[T]{key: a.Key, step: uint64(uint32(step[1]))<<32 | uint64(uint32(step[0])),
		limit: uint32(a.Rate * (1 << 32)), factor: T(1 / (1 - a.Rate)), rows: d.integers(a.Rows)}
}

func (p *drops[T]) active() bool { return p.factor != 0 }

// draw fills words with the draws of row r from column first on.
func (p *drops[T]) draw(words []uint32, r, first int) {
	if p.rows[r] < 0 {
		clear(words) // which drops all
		return
	}
	p.key.Words(words, p.step, uint64(p.rows[r])<<32+uint64(first))
}

// apply sets y to x with dropout by the words drawn for it; y may be x.
func (p *drops[T]) apply(ops *vec.Ops[T], y, x []T, words []uint32) {
	ops.Drop(y, x, words, p.limit, p.factor)
}
