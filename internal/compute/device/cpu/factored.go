package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/vec"
)

// Gradients known as products G = DYᵀ X (device.Factored): their norm from Gram matrices, and Adam on parts of
// the weight whose gradient lies in a cache.

// factoredLoop is Adam over one panel of columns; a piece is a few rows.
type factoredLoop[T vec.Float] struct {
	adamLoop[T]
	grad              []T // [O, width] of the panel
	o, i, from, width int
}

const panelRows = 16 // rows of one piece of the loop

// panelFloats are the elements of a panel: rows long enough to stream the parameters, small enough for the last cache.
// A variable for tests.
var panelFloats = 1 << 22

func (l *factoredLoop[T]) Do(_, piece int) {
	r := piece * panelRows
	l.update(l.grad[r*l.width:], r, min(l.o, r+panelRows), l.from, l.width)
}

// update is Adam over rows [r, end) of the columns from from on, whose gradient is g.
func (l *factoredLoop[T]) update(g []T, r, end, from, width int) {
	for ; r < end; r++ {
		lo := r*l.i + from
		hi := lo + width
		l.ops.Adam(l.p[lo:hi], g[:width], l.m[lo:hi], l.v[lo:hi], &l.s)
		g = g[width:]
	}
}

func (d *dev[T]) AdamFactored(a device.AdamFactored) {
	f := a.Factored
	dy, x := d.values(f.DY), d.values(f.X)
	l := &d.factored
	l.ops, l.s = d.ops, d.adamScalars(a.Adam)
	l.p, l.m, l.v = d.values(a.P), d.values(a.M), d.values(a.V)
	l.o, l.i = f.O, f.I
	l.width = min(f.I, max(64, panelFloats/f.O/64*64))
	if f.N < manyTerms && !d.products.external() {
		d.fewTerms.run(d, f.N, dy, x)
		return
	}
	reserve(&l.grad, f.O*l.width)
	for l.from = 0; l.from < f.I; l.from += l.width {
		l.width = min(l.width, f.I-l.from)
		l.grad = l.grad[:f.O*l.width]
		d.multiply(product[T]{transA: true, m: f.O, n: l.width, k: f.N, alpha: 1, a: dy, lda: f.O, b: x[l.from:],
			ldb: f.I, c: l.grad, ldc: l.width})
		d.pool.For(pieces(f.O, panelRows), l)
	}
}

// fewTerms is Adam where the product has so few terms that its result takes longer to write and to read in the last
// cache than to compute: the thread that makes a piece of the gradient updates with it, in its level-2 cache.
type fewTerms[T vec.Float] struct {
	*factoredLoop[T]
	dy, x   []T
	n       int
	packing bool
	packed  []packed[T] // x, panel by panel
	one     []single[T]
	spaces  []workspace[T]
}

const (
	manyTerms = 64 // fewer are multiplied alike whether operands are even or not (gemm.FixedPoint)
	fewRows   = 28 // rows of a piece, twice those of a tile of AVX-512
	fewWidth  = 4096
)

func (l *fewTerms[T]) Do(worker, i int) {
	groups := pieces(l.o, fewRows)
	if l.packing {
		groups = 1
	}
	from, r, packed := i/groups*l.width, i%groups*fewRows, &l.packed[i/groups]
	one, w, width, end := l.one[worker], &l.spaces[worker], min(l.width, l.i-from), min(l.o, r+fewRows)
	if l.packing {
		one.pack(packed, false, l.n, width, l.x[from:], l.i)
		return
	}
	w.p = product[T]{transA: true, m: end - r, n: width, k: l.n, alpha: 1, a: l.dy[r:], lda: l.o,
		c: scratch(&w.a, fewRows*l.width), ldc: width}
	one.gemmPacked(&w.p, packed)
	l.update(w.a, r, end, from, width)
}

func (l *fewTerms[T]) run(d *dev[T], n int, dy, x []T) {
	l.factoredLoop, l.dy, l.x, l.n, l.one, l.spaces = &d.factored, dy, x, n, d.singles(), d.workspaces()
	l.width = min(l.width, fewWidth)
	panels := pieces(l.i, l.width)
	packs(l.one[0], &l.packed, panels, n, l.width)
	l.packing = true
	d.pool.For(panels, l)
	l.packing = false
	d.pool.For(panels*pieces(l.o, fewRows), l)
}

func (d *dev[T]) SumSquaresFactored(k device.SumSquaresFactored) {
	f, sum := k.Factored, d.values(k.Sum)
	dy, x, n := d.values(f.DY), d.values(f.X), f.N*f.N
	grams := reserve(&d.grams, 2*n)
	a, b := grams[:n], grams[n:]
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
	d.multiply(product[T]{transB: true, m: n, n: n, k: k, alpha: 1, a: x, lda: k, b: x, ldb: k, c: out, ldc: n})
}
