package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/vec"
)

// products computes matrix products in the device's precision.
type products[T vec.Float] interface {
	// name is the implementation in use.
	name() string
	// gemm computes count products; the strides lie between consecutive operands.
	gemm(p *product[T], count, strideA, strideB, strideC int)
	// external reports whether a library with its own threads computes them.
	external() bool
	// on returns products on another pool of threads, in the same precision and by the same kernels; not for external
	// ones.
	on(*par.Pool) products[T]
	// single returns products of one thread.
	single() single[T]
	// pack brings op(B) into the order the kernel reads it, for calls of gemmPacked until the next pack; for even
	// products. With held, b stays as it is until forget, and is packed once only.
	pack(transB bool, k, n int, b []T, ldb int, held bool)
	// forget drops what pack has kept.
	forget()
	// gemmPacked is gemm with the packed operand instead of p.b.
	gemmPacked(p *product[T])
}

// product is C[m,n] = alpha·op(A)·op(B) + beta·C (+ bias[n] in every row), row-major.
type product[T vec.Float] struct {
	transA, transB bool
	m, n, k        int
	alpha, beta    T
	a, b, c        []T
	lda, ldb, ldc  int
	bias           []T
	exact          bool // float32 products also in bf16
	even           bool // values of a row or column are of one size
}

// multiply computes one product.
func (d *dev[T]) multiply(p product[T]) {
	d.product = p
	d.products.gemm(&d.product, 1, 0, 0, 0)
	d.product = product[T]{}
}

func (d *dev[T]) Gemm(a device.Gemm) {
	if a.M == 0 || a.N == 0 {
		return
	}
	count := max(1, a.Batch)
	p := &d.product
	*p = product[T]{transA: a.TransA, transB: a.TransB, m: a.M, n: a.N, k: a.K,
		alpha: T(a.Alpha), beta: T(a.Beta), exact: a.Exact, even: a.Even,
		a: d.values(a.A), lda: a.LDA, b: d.values(a.B), ldb: a.LDB, c: d.values(a.C), ldc: a.LDC,
		bias: d.values(a.Bias)}
	d.products.gemm(p, count, a.StrideA, a.StrideB, a.StrideC)
	*p = product[T]{}
	if a.Active.Present() {
		d.Activate(device.Activate{F: a.F, Y: a.Active, X: a.C})
	}
}
