package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Gradients known as products G = DYᵀ X (device.Factored): their norm from Gram matrices, and Adam on panels of columns
// whose gradient lies in the cache.

// factoredLoop is Adam over one panel of columns; a piece is a few rows.
type factoredLoop[T vec.Float] struct {
	adamLoop[T]
	grad              []T // [O, width] of the panel
	o, i, from, width int
	rows              int
}

const panelRows = 16 // rows of one piece of the loop

// panelFloats are the elements of a panel: rows long enough to stream the parameters, small enough for the last cache.
// A variable for tests.
var panelFloats = 1 << 22

func (l *factoredLoop[T]) Do(_, piece int) {
	for r := piece * l.rows; r < min(l.o, (piece+1)*l.rows); r++ {
		lo := r*l.i + l.from
		hi := lo + l.width
		l.ops.Adam(l.p[lo:hi], l.grad[r*l.width:(r+1)*l.width], l.m[lo:hi], l.v[lo:hi], &l.s)
	}
}

func (d *dev[T]) AdamFactored(a device.AdamFactored) {
	f := a.Factored
	dy, x := d.values(f.DY), d.values(f.X)
	l := &d.factored
	l.ops, l.s = d.ops, d.adamScalars(a.Adam)
	l.p, l.m, l.v = d.values(a.P), d.values(a.M), d.values(a.V)
	l.o, l.i, l.rows = f.O, f.I, panelRows
	width := min(f.I, max(64, panelFloats/f.O/64*64))
	if cap(l.grad) < f.O*width {
		l.grad = make([]T, f.O*width)
	}
	for from := 0; from < f.I; from += width {
		w := min(width, f.I-from)
		l.grad = l.grad[:f.O*w]
		d.gemm.p = product[T]{transA: true, m: f.O, n: w, k: f.N, alpha: 1, a: dy, lda: f.O, b: x[from:], ldb: f.I,
			c: l.grad, ldc: w}
		d.products.gemm(&d.gemm.p, 1, 0, 0, 0)
		l.from, l.width = from, w
		d.pool.For(pieces(f.O, l.rows), l)
	}
	d.gemm.p = product[T]{}
}

func (d *dev[T]) SumSquaresFactored(k device.SumSquaresFactored) {
	f, sum := k.Factored, d.values(k.Sum)
	dy, x, n := d.values(f.DY), d.values(f.X), f.N*f.N
	if cap(d.grams) < 2*n {
		d.grams = make([]T, 2*n)
	}
	a, b := d.grams[:n], d.grams[n:2*n]
	d.gram(a, dy, f.N, f.O)
	d.gram(b, x, f.N, f.I)
	var total float64
	for i, v := range a {
		total += float64(v) * float64(b[i])
	}
	sum[0] = T(float64(sum[0]) + max(0, total))
}

// gram computes out = x xᵀ for x [n, k].
func (d *dev[T]) gram(out, x []T, n, k int) {
	d.gemm.p = product[T]{transB: true, m: n, n: n, k: k, alpha: 1, a: x, lda: k, b: x, ldb: k, c: out, ldc: n}
	d.products.gemm(&d.gemm.p, 1, 0, 0, 0)
	d.gemm.p = product[T]{}
}
