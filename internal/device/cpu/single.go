package cpu

import (
	"vsetrain/internal/gemm"
	"vsetrain/internal/par"
	"vsetrain/internal/vec"
)

// single computes products on the calling thread, for the bodies of parallel loops. An element of a result is computed as by
// products.
type single[T vec.Float] interface {
	gemm(p *product[T])
	pack(to *packed[T], transB bool, k, n int, b []T, ldb int)
	// reserve makes room for an operand, so that packing it does not allocate.
	reserve(to *packed[T], k, n int)
	gemmPacked(p *product[T], b *packed[T])
}

// packed is op(B) in the order the kernel reads it. It may serve several threads at once.
type packed[T vec.Float] struct {
	p32    gemm.Packed
	transB bool
	b      []T
	ldb    int
}

// singles returns one single per worker.
func (d *dev[T]) singles() []single[T] {
	for len(d.single) < d.pool.Threads() {
		d.single = append(d.single, d.products.single())
	}
	return d.single
}

func (e *products32) single() single[float32] {
	kernel := e.engine.Name()
	if e.engine.External() { // libraries have threads of their own and are not called from several
		kernel = ""
	}
	g, err := gemm.New(par.New(1), gemm.Options{Kernel: kernel})
	if err != nil {
		panic("cpu: " + err.Error()) // it exists: the device uses it
	}
	g.Reserve()
	return &single32{products32{engine: g, bf16: e.bf16}}
}

type single32 struct{ products32 }

func (e *single32) gemm(p *product[float32]) {
	e.set(p)
	e.engine.Gemm(&e.args)
}

func (e *single32) pack(to *packed[float32], transB bool, k, n int, b []float32, ldb int) {
	e.engine.PackB(&to.p32, transB, k, n, b, ldb, e.bf16)
}

func (e *single32) reserve(to *packed[float32], k, n int) { e.engine.ReserveB(&to.p32, k, n, e.bf16) }

func (e *single64) reserve(*packed[float64], int, int) {}

func (e *single32) gemmPacked(p *product[float32], b *packed[float32]) {
	e.set(p)
	e.engine.GemmPacked(&e.args, &b.p32)
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
