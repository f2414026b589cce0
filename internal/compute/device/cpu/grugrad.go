package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// The gradient of the GRU: backpropagation through time in the opposite order of the steps.
//
// Each step turns its gates into the gradients of the gate inputs, stored [n, r, z, hn]: the last three parts are the
// gradient of W_hh h + b_hh in the order of its rows, the first three the gradient of W_ih x + b_ih with n in front.
// The gradient of the states is carried by one product with W_hh per step; all weight gradients are products over all T
// rows at the end.

// gruGradStep computes the gradients of the active rows of one step.
type gruGradStep[T vec.Float] struct {
	ops             *vec.Ops[T]
	h, active, per  int
	carried         int // rows whose carry holds a gradient from the step processed before
	gates, prev, dy []T // the rows of this step; dy may be nil
	carry           []T
	final           []T // [B, H] or nil: gradient of the last states
	zeros           []T
}

func (l *gruGradStep[T]) Do(_, i int) {
	h := l.h
	for b := i * l.per; b < min(l.active, (i+1)*l.per); b++ {
		carry, dy := l.carry[b*h:(b+1)*h], l.zeros
		if b >= l.carried {
			if l.final != nil {
				copy(carry, l.final[b*h:])
			} else {
				clear(carry)
			}
		}
		if l.dy != nil {
			dy = l.dy[b*h : (b+1)*h]
		}
		l.ops.GRUCellGrad(l.gates[b*4*h:(b+1)*4*h], l.prev[b*h:(b+1)*h], dy, carry)
	}
}

func (d *dev[T]) GRUGrad(a device.GRU) {
	o := d.gruGradOperands(a)
	d.gru.backward(&o)
	d.gruWeights(&o)
}

func (d *dev[T]) gruGradOperands(a device.GRU) gruOperands[T] {
	o := d.gruOperands(a)
	o.dFinal = d.values(a.DFinal)
	o.dy, o.dx = d.values(a.DY), d.values(a.DX)
	o.dwih, o.dwhh = d.values(a.DWIH), d.values(a.DWHH)
	o.dbih, o.dbhh = d.values(a.DBIH), d.values(a.DBHH)
	return o
}

// backward turns the gates into the gradients of the gate inputs.
func (s *recurrence[T]) backward(o *gruOperands[T]) {
	h := o.a.H
	s.pack = o.pack
	l := &s.grad
	*l = gruGradStep[T]{ops: s.ops, h: h, per: group(4 * h), zeros: s.zeroRow(h),
		carry: scratch(&s.carry, len(o.a.Lengths.Host)*h), final: o.dFinal}

	// Once a row has been reached its carry stays alive; the first step reached starts every row.
	s.products.pack(false, 3*h, h, o.whh, h, false)
	steps := s.pack.Steps()
	for n := range steps {
		t, next := steps-1-n, steps-2-n
		if o.a.Reverse {
			t, next = n, n+1
		}
		start := s.pack.Start(t)
		l.active = s.pack.Active(t)
		l.gates, l.prev = o.gates[start*4*h:], o.prev[start*h:]
		if o.dy != nil {
			l.dy = o.dy[start*h:]
		}
		s.pool.For(pieces(l.active, l.per), l)
		l.carried = l.active
		if n+1 < steps {
			s.p = product[T]{m: min(l.active, s.pack.Active(next)), n: h, k: 3 * h, alpha: 1, even: true, beta: 1,
				a: o.gates[start*4*h+h:], lda: 4 * h, c: l.carry, ldc: h}
			s.products.gemmPacked(&s.p)
		}
	}
}

// gruWeights computes the gradients of the weights, biases and inputs from the gradients of the gate inputs.
func (d *dev[T]) gruWeights(o *gruOperands[T]) {
	h, in, rows := o.a.H, o.a.I, o.rows
	bias := scratch(&d.gruBias, 4*h)
	d.columnSum(bias, o.gates, rows, 4*h)
	copy(o.dbhh, bias[h:])
	copy(o.dbih, bias[h:3*h])
	copy(o.dbih[2*h:], bias[:h])

	d.multiply(product[T]{transA: true, m: 3 * h, n: h, k: rows, alpha: 1, even: true,
		a: from(o.gates, h), lda: 4 * h, b: o.prev, ldb: h, c: o.dwhh, ldc: h})
	d.multiply(product[T]{transA: true, m: 2 * h, n: in, k: rows, alpha: 1, even: true,
		a: from(o.gates, h), lda: 4 * h, b: o.x, ldb: in, c: o.dwih, ldc: in})
	d.multiply(product[T]{transA: true, m: h, n: in, k: rows, alpha: 1, even: true,
		a: o.gates, lda: 4 * h, b: o.x, ldb: in, c: o.dwih[2*h*in:], ldc: in})
	if o.dx == nil || rows == 0 {
		return
	}
	d.multiply(product[T]{m: rows, n: in, k: 2 * h, alpha: 1, even: true,
		a: from(o.gates, h), lda: 4 * h, b: o.wih, ldb: in, c: o.dx, ldc: in})
	d.multiply(product[T]{m: rows, n: in, k: h, alpha: 1, even: true, beta: 1,
		a: o.gates, lda: 4 * h, b: o.wih[2*h*in:], ldb: in, c: o.dx, ldc: in})
}

// from is s[n:], and empty where s is shorter (a batch without words).
func from[T any](s []T, n int) []T { return s[min(n, len(s)):] }
