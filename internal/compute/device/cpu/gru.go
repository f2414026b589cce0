package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/vec"
)

// The GRU over a packed batch (device.GRU; torch.nn.GRU with its gate order r, z, n).
//
// The products with the inputs of all T words are one matrix product, written where the gates will stand. The
// recurrence then needs one product [active, H]×[H, 3H] per step with W_hh packed once; its operand, the states before
// the step, are consecutive rows of Y because steps are packed one after the other.

// recurrence works through the steps of a GRU on a team of threads. It owns the scratch memory and the loop bodies for
// it.
type recurrence[T vec.Float] struct {
	ops       *vec.Ops[T]
	pool      *par.Pool
	products  products[T]
	pack      *device.Packing
	p         product[T]
	hidden    []T // [B, 3H]: W_hh h + b_hh of one step
	carry     []T // [B, H]: gradient of the states, carried from step to step
	zeros     []T // [H]
	step      gruStep[T]
	grad      gruGradStep[T]
	finalCopy gruFinal[T]

	prefixes   prefixes // where weights are held
	prefixStep prefixStep[T]
	prefixRows prefixRows[T]
	openings   map[*T]opening[T] // by the first value of W_hh
}

// gruOperands are the arrays of device.GRU.
type gruOperands[T vec.Float] struct {
	a              device.GRU
	rows           int // of all words
	pack           *device.Packing
	held           bool    // the weights stay as they are
	words          []int32 // held: of each row of x its row of gates
	x, wih, whh    []T
	bih, bhh       []T
	y, final       []T
	gates, prev    []T
	dy, dFinal     []T
	dx, dwih, dwhh []T
	dbih, dbhh     []T
}

// gruOperands returns the arrays that both directions of a call read.
func (d *dev[T]) gruOperands(a device.GRU) gruOperands[T] {
	pack := a.Lengths.Packing()
	return gruOperands[T]{a: a, rows: pack.Rows(), pack: pack, x: d.values(a.X), wih: d.values(a.WIH),
		whh: d.values(a.WHH), held: d.holds(a.WIH) && d.holds(a.WHH), gates: d.values(a.Gates), prev: d.values(a.Prev)}
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

// The products of a GRU are even: states lie between -1 and 1.

func (d *dev[T]) GRU(a device.GRU) {
	if o := d.projected(a, false); o.rows > 0 {
		d.gru.forward(&o)
	}
}

// projected computes the products with the inputs of all words; where weights are held, of the different ones. Where
// the call is for the other direction those are known.
func (d *dev[T]) projected(a device.GRU, other bool) gruOperands[T] {
	o, h := d.gruOperands(a), a.H
	o.bih, o.bhh = d.values(a.BIH), d.values(a.BHH)
	o.y, o.final = d.values(a.Y), d.values(a.Final)
	p := &d.gru.p
	*p = product[T]{transB: true, m: o.rows, n: 3 * h, k: a.I, alpha: 1, even: true, a: o.x, lda: a.I, b: o.wih,
		ldb: a.I, c: o.gates, ldc: 4 * h, bias: o.bih}
	switch {
	case o.rows == 0:
	case o.held:
		if !other {
			d.words.find(o.x, o.rows, a.I)
		}
		p.a, p.m, o.words = d.words.rows, d.words.n, d.words.of
		d.products.pack(true, a.I, 3*h, o.wih, a.I, true)
		d.products.gemmPacked(p)
	default:
		d.products.gemm(p, 1, 0, 0, 0)
	}
	return o
}

func (s *recurrence[T]) forward(o *gruOperands[T]) {
	if o.held {
		s.forwardHeld(o)
		return
	}
	h, batch := o.a.H, len(o.a.Lengths.Host)
	s.pack = o.pack
	hidden := scratch(&s.hidden, batch*3*h)
	l := &s.step
	*l = gruStep[T]{ops: s.ops, h: h, per: group(4 * h), hidden: hidden, bias: o.bhh, zeros: s.zeroRow(h)}
	s.products.pack(true, h, 3*h, o.whh, h, false)
	steps := s.pack.Steps()
	for n := range steps {
		t, before := n, n-1
		if o.a.Reverse {
			t, before = steps-1-n, steps-n
		}
		start := s.pack.Start(t)
		l.active, l.continued = s.pack.Active(t), 0
		l.gates, l.prev, l.y = o.gates[start*4*h:], o.prev[start*h:], o.y[start*h:]
		if n > 0 {
			l.continued = min(l.active, s.pack.Active(before))
			l.before = o.y[s.pack.Start(before)*h:]
			s.p = product[T]{m: l.continued, n: 3 * h, k: h, alpha: 1, even: true,
				a: l.before, lda: h, c: hidden, ldc: 3 * h, bias: o.bhh}
			s.products.gemmPacked(&s.p)
		}
		s.pool.For(pieces(l.active, l.per), l)
	}
	if o.final != nil {
		s.finalCopy = gruFinal[T]{pack: s.pack, lengths: o.a.Lengths.Host, h: h, reverse: o.a.Reverse, y: o.y,
			final: o.final}
		s.pool.For(batch, &s.finalCopy)
	}
}

// forget drops what is kept of weights.
func (s *recurrence[T]) forget() {
	s.products.forget()
	clear(s.openings)
}

// zeroRow returns n zeros.
func (s *recurrence[T]) zeroRow(n int) []T { return reserve(&s.zeros, n) }
