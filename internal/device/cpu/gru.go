package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// The GRU over a packed batch (device.GRUArgs; specification, models.md §1.1; PyTorch's gate order r, z, n).
//
// The products with the inputs of all T words are one matrix product, written where the gates will stand. The
// recurrence then needs one product [active, H]×[H, 3H] per step with W_hh packed once; its operand, the states before
// the step, are consecutive rows of Y because steps are packed one after the other.

// gruState is the scratch memory and the loop bodies of the recurrence.
type gruState[T vec.Float] struct {
	pack      device.Packing
	p         product[T]
	hidden    []T // [B, 3H]: W_hh h + b_hh of one step
	carry     []T // [B, H]: gradient of the states, carried from step to step
	zeros     []T // [H]
	bias      []T // [4H]: column sums of the gate gradients
	step      gruStep[T]
	grad      gruGradStep[T]
	finalCopy gruFinal[T]
}

// gruStep computes the gates of the active rows of one step.
type gruStep[T vec.Float] struct {
	ops                  *vec.Ops[T]
	h, active, per       int
	continued            int // rows that have a state before this step; the others start from zero
	gates, prev, y       []T // the rows of this step
	hidden, before, bias []T // before: the states, the rows of Y of the step before
	zeros                []T
}

func (l *gruStep[T]) Do(_, i int) {
	h := l.h
	for b := i * l.per; b < min(l.active, (i+1)*l.per); b++ {
		gh, before := l.bias, l.zeros
		if b < l.continued {
			gh, before = l.hidden[b*3*h:(b+1)*3*h], l.before[b*h:(b+1)*h]
		}
		l.ops.GRUCell(l.gates[b*4*h:(b+1)*4*h], gh, before, l.y[b*h:(b+1)*h], l.prev[b*h:(b+1)*h])
	}
}

// gruFinal copies the last state of every sequence.
type gruFinal[T vec.Float] struct {
	pack     *device.Packing
	lengths  []int32
	h        int
	reverse  bool
	y, final []T
}

func (l *gruFinal[T]) Do(_, b int) {
	last := int(l.lengths[b]) - 1
	if l.reverse {
		last = 0
	}
	row := l.pack.Start(last) + b
	copy(l.final[b*l.h:(b+1)*l.h], l.y[row*l.h:(row+1)*l.h])
}

// GRU implements device.Recurrent.
func (d *dev[T]) GRU(a device.GRUArgs) {
	positive("GRU", a.I, a.H)
	s, h := &d.gru, a.H
	s.pack.Pack(a.Lengths.Host)
	rows, batch := s.pack.Rows(), len(a.Lengths.Host)
	x := d.floats("GRU X", a.X, rows*a.I)
	wih, whh := d.floats("GRU WIH", a.WIH, 3*h*a.I), d.floats("GRU WHH", a.WHH, 3*h*h)
	bih, bhh := d.floats("GRU BIH", a.BIH, 3*h), d.floats("GRU BHH", a.BHH, 3*h)
	y, final := d.floats("GRU Y", a.Y, rows*h), d.optional("GRU Final", a.Final, batch*h)
	gates, prev := d.floats("GRU Gates", a.Gates, rows*4*h), d.floats("GRU Prev", a.Prev, rows*h)
	if rows == 0 {
		return
	}
	s.p = product[T]{transB: true, m: rows, n: 3 * h, k: a.I, alpha: 1,
		a: x, lda: a.I, b: wih, ldb: a.I, c: gates, ldc: 4 * h, bias: bih}
	d.products.gemm(&s.p, 1, 0, 0, 0)

	hidden := scratch(&s.hidden, batch*3*h)
	l := &s.step
	*l = gruStep[T]{ops: d.ops, h: h, per: group(4 * h), hidden: hidden, bias: bhh, zeros: d.zeroRow(h)}
	d.products.pack(true, h, 3*h, whh, h)
	steps := s.pack.Steps()
	for n := range steps {
		t, before := n, n-1
		if a.Reverse {
			t, before = steps-1-n, steps-n
		}
		start := s.pack.Start(t)
		l.active, l.continued = s.pack.Active(t), 0
		l.gates, l.prev, l.y = gates[start*4*h:], prev[start*h:], y[start*h:]
		if n > 0 {
			l.continued = min(l.active, s.pack.Active(before))
			l.before = y[s.pack.Start(before)*h:]
			s.p = product[T]{m: l.continued, n: 3 * h, k: h, alpha: 1,
				a: l.before, lda: h, c: hidden, ldc: 3 * h, bias: bhh}
			d.products.gemmPacked(&s.p)
		}
		d.pool.For(pieces(l.active, l.per), l)
	}
	if final != nil {
		s.finalCopy = gruFinal[T]{pack: &s.pack, lengths: a.Lengths.Host, h: h, reverse: a.Reverse, y: y, final: final}
		d.pool.For(batch, &s.finalCopy)
	}
}

// zeroRow returns n zeros.
func (d *dev[T]) zeroRow(n int) []T {
	if cap(d.gru.zeros) < n {
		d.gru.zeros = make([]T, n)
	}
	return d.gru.zeros[:n]
}
