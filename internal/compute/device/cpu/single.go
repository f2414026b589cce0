package cpu

import (
	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/vec"
)

// single computes products on the calling thread, for the bodies of parallel loops over pairs: products of attention
// weights and vectors of length 1, and what comes back through them, which are even (device.Gemm).
type single[T vec.Float] interface {
	gemm(p *product[T])
	pack(to *packed[T], transB bool, k, n int, b []T, ldb int)
	// reserve makes room for an operand, so that packing it does not allocate.
	reserve(to *packed[T], k, n int)
	gemmPacked(p *product[T], b *packed[T])
	// startA and startB begin operands whose rows setRowsA and setRowsB then give, gemm.RowsTogether at a time, while
	// they are in the cache.
	startA(to *packedRows[T], m, k int)
	setRowsA(to *packedRows[T], i int, x []T)
	startB(to *packed[T], k, n int)
	setRowsB(to *packed[T], i int, x []T)
	gemmRows(p *product[T], a *packedRows[T], b *packed[T])
}

// packedRows is A in the order the kernel reads it.
type packedRows[T vec.Float] struct {
	p32 gemm.PackedA
	a   []T
	k   int
}

// packed is op(B) in the order the kernel reads it. It may serve several threads at once.
type packed[T vec.Float] struct {
	p32    gemm.Packed
	transB bool
	b      []T
	ldb    int
	rows   []T // memory of b given row by row
}

// singles returns one single per worker.
func (d *dev[T]) singles() []single[T] {
	for len(d.single) < d.pool.Threads() {
		d.single = append(d.single, d.products.single())
	}
	return d.single
}

func (e *products32) single() single[float32] {
	one := &single32{*e.copy(par.New(1))}
	one.usual = e.even
	return one
}

type single32 struct{ products32 }

func (e *single32) gemm(p *product[float32]) {
	e.set(p)
	e.engine.Gemm(&e.args)
}

func (e *single32) pack(to *packed[float32], transB bool, k, n int, b []float32, ldb int) {
	e.engine.PackB(&to.p32, transB, k, n, b, ldb, e.usual)
}

func (e *single32) reserve(to *packed[float32], k, n int) { e.engine.ReserveB(&to.p32, k, n, e.usual) }

func (e *single64) reserve(*packed[float64], int, int) {}

func (e *single32) gemmPacked(p *product[float32], b *packed[float32]) {
	e.set(p)
	e.engine.GemmPacked(&e.args, &b.p32)
}

func (e *single32) startA(to *packedRows[float32], m, k int) { e.engine.StartA(&to.p32, m, k, e.usual) }

func (e *single32) setRowsA(to *packedRows[float32], i int, x []float32) {
	e.engine.SetRowsA(&to.p32, i, x)
}

func (e *single32) startB(to *packed[float32], k, n int) { e.engine.StartB(&to.p32, k, n, e.usual) }

func (e *single32) setRowsB(to *packed[float32], i int, x []float32) {
	e.engine.SetRowsB(&to.p32, i, x)
}

func (e *single32) gemmRows(p *product[float32], a *packedRows[float32], b *packed[float32]) {
	e.set(p)
	e.engine.GemmRows(&e.args, &a.p32, &b.p32)
}

func (e *products64) single() single[float64] { return &single64{products64{pool: par.New(1)}} }

type single64 struct{ products64 }

func (e *single64) gemm(p *product[float64]) { e.products64.gemm(p, 1, 0, 0, 0) }

func (e *single64) pack(to *packed[float64], transB bool, _, _ int, b []float64, ldb int) {
	to.transB, to.b, to.ldb = transB, b, ldb
}

func (e *single64) gemmPacked(p *product[float64], b *packed[float64]) {
	p.transB, p.b, p.ldb = b.transB, b.b, b.ldb
	e.gemm(p)
}

func (e *single64) startA(to *packedRows[float64], m, k int) {
	scratch(&to.a, m*k)
	to.k = k
}

func (e *single64) setRowsA(to *packedRows[float64], i int, x []float64) { copy(to.a[i*to.k:], x) }

func (e *single64) startB(to *packed[float64], k, n int) {
	to.transB, to.b, to.ldb = false, scratch(&to.rows, k*n), n
}

func (e *single64) setRowsB(to *packed[float64], i int, x []float64) { copy(to.b[i*to.ldb:], x) }

func (e *single64) gemmRows(p *product[float64], a *packedRows[float64], b *packed[float64]) {
	p.a, p.lda = a.a, a.k
	e.gemmPacked(p, b)
}
