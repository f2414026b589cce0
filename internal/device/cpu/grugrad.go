package cpu

import (
	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// The gradient of the GRU: backpropagation through time in the opposite order of the steps.
//
// Each step turns its gates into the gradients of the gate inputs, stored [n, r, z, hn]: the last three parts are the
// gradient of W_hh h + b_hh in the order of its rows, the first three that of W_ih x + b_ih with n in front. The
// gradient of the states is carried by one product with W_hh per step; all weight gradients are products over all
// T rows at the end.

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

// GRUGrad implements device.Recurrent.
func (d *dev[T]) GRUGrad(a device.GRUArgs) {
	positive("GRUGrad", a.I, a.H)
	s, h := &d.gru, a.H
	s.pack.Pack(a.Lengths.Host)
	rows, batch := s.pack.Rows(), len(a.Lengths.Host)
	l := &s.grad
	*l = gruGradStep[T]{ops: d.ops, h: h, per: group(4 * h), zeros: d.zeroRow(h), carry: scratch(&s.carry, batch*h),
		final: d.optional("GRUGrad DFinal", a.DFinal, batch*h)}
	gates, prev := d.floats("GRUGrad Gates", a.Gates, rows*4*h), d.floats("GRUGrad Prev", a.Prev, rows*h)
	dy := d.optional("GRUGrad DY", a.DY, rows*h)

	// Once a row has been reached its carry stays alive; the first step reached starts every row.
	d.products.pack(false, 3*h, h, d.floats("GRUGrad WHH", a.WHH, 3*h*h), h)
	steps := s.pack.Steps()
	for n := range steps {
		t, next := steps-1-n, steps-2-n
		if a.Reverse {
			t, next = n, n+1
		}
		start := s.pack.Start(t)
		l.active = s.pack.Active(t)
		l.gates, l.prev = gates[start*4*h:], prev[start*h:]
		if dy != nil {
			l.dy = dy[start*h:]
		}
		d.pool.For(pieces(l.active, l.per), l)
		l.carried = l.active
		if n+1 < steps {
			s.p = product[T]{m: min(l.active, s.pack.Active(next)), n: h, k: 3 * h, alpha: 1, beta: 1,
				a: gates[start*4*h+h:], lda: 4 * h, c: l.carry, ldc: h}
			d.products.gemmPacked(&s.p)
		}
	}
	d.gruWeights(a, gates, prev, rows)
}

// gruWeights computes the gradients of the weights, biases and inputs from the gradients of the gate inputs.
func (d *dev[T]) gruWeights(a device.GRUArgs, gates, prev []T, rows int) {
	s, h := &d.gru, a.H
	x, wih := d.floats("GRUGrad X", a.X, rows*a.I), d.floats("GRUGrad WIH", a.WIH, 3*h*a.I)
	dwih, dwhh := d.floats("GRUGrad DWIH", a.DWIH, 3*h*a.I), d.floats("GRUGrad DWHH", a.DWHH, 3*h*h)
	dbih, dbhh := d.floats("GRUGrad DBIH", a.DBIH, 3*h), d.floats("GRUGrad DBHH", a.DBHH, 3*h)
	dx := d.optional("GRUGrad DX", a.DX, rows*a.I)

	bias := scratch(&s.bias, 4*h)
	d.columnSum(bias, gates, rows, 4*h)
	copy(dbhh, bias[h:])
	copy(dbih, bias[h:3*h])
	copy(dbih[2*h:], bias[:h])

	s.p = product[T]{transA: true, m: 3 * h, n: h, k: rows, alpha: 1,
		a: from(gates, h), lda: 4 * h, b: prev, ldb: h, c: dwhh, ldc: h}
	d.products.gemm(&s.p, 1, 0, 0, 0)
	s.p = product[T]{transA: true, m: 2 * h, n: a.I, k: rows, alpha: 1,
		a: from(gates, h), lda: 4 * h, b: x, ldb: a.I, c: dwih, ldc: a.I}
	d.products.gemm(&s.p, 1, 0, 0, 0)
	s.p = product[T]{transA: true, m: h, n: a.I, k: rows, alpha: 1,
		a: gates, lda: 4 * h, b: x, ldb: a.I, c: dwih[2*h*a.I:], ldc: a.I}
	d.products.gemm(&s.p, 1, 0, 0, 0)
	if dx == nil || rows == 0 {
		return
	}
	s.p = product[T]{m: rows, n: a.I, k: 2 * h, alpha: 1,
		a: from(gates, h), lda: 4 * h, b: wih, ldb: a.I, c: dx, ldc: a.I}
	d.products.gemm(&s.p, 1, 0, 0, 0)
	s.p = product[T]{m: rows, n: a.I, k: h, alpha: 1, beta: 1,
		a: gates, lda: 4 * h, b: wih[2*h*a.I:], ldb: a.I, c: dx, ldc: a.I}
	d.products.gemm(&s.p, 1, 0, 0, 0)
}

// from is s[n:], and empty where s is shorter (a batch without words).
func from[T any](s []T, n int) []T { return s[min(n, len(s)):] }
