package cpu

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/par"
	"vsetrain/internal/vec"
)

// products computes matrix products in the device's precision.
type products[T vec.Float] interface {
	// name is the implementation in use.
	name() string
	// gemm computes count products; the strides lie between consecutive operands.
	gemm(p *product[T], count, strideA, strideB, strideC int)
	// external reports whether a library with threads of its own computes them.
	external() bool
	// on returns products on another pool of threads, in the same precision and by the same kernels; not for external ones.
	on(*par.Pool) products[T]
	// single returns products of one thread.
	single() single[T]
	// pack keeps op(B) in the order the kernel reads it, for any number of calls of gemmPacked; for even products.
	pack(transB bool, k, n int, b []T, ldb int)
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

// gemmState is the reused argument of a product.
type gemmState[T vec.Float] struct{ p product[T] }

// Gemm implements device.Products.
func (d *dev[T]) Gemm(a device.GemmArgs) {
	if a.M < 0 || a.N < 0 || a.K < 0 || a.Batch < 0 || a.StrideA < 0 || a.StrideB < 0 || a.StrideC < 0 {
		panic(fmt.Sprintf("cpu: Gemm: negative size in M=%d N=%d K=%d Batch=%d strides %d %d %d",
			a.M, a.N, a.K, a.Batch, a.StrideA, a.StrideB, a.StrideC))
	}
	if a.M == 0 || a.N == 0 {
		return
	}
	count := max(1, a.Batch)
	if a.Overlap() {
		panic(fmt.Sprintf("cpu: Gemm: products of %d×%d overlap with StrideC=%d", a.M, a.N, a.StrideC))
	}
	p := &d.gemm.p
	*p = product[T]{transA: a.TransA, transB: a.TransB, m: a.M, n: a.N, k: a.K,
		alpha: T(a.Alpha), beta: T(a.Beta), exact: a.Exact, even: a.Even}
	p.a, p.lda = d.matrix("Gemm A", a.A, a.TransA, a.M, a.K, a.LDA, count, a.StrideA)
	p.b, p.ldb = d.matrix("Gemm B", a.B, a.TransB, a.K, a.N, a.LDB, count, a.StrideB)
	p.c, p.ldc = d.matrix("Gemm C", a.C, false, a.M, a.N, a.LDC, count, a.StrideC)
	p.bias = d.optional("Gemm Bias", a.Bias, a.N)
	if a.Active.Present() && (count > 1 || p.ldc != a.N) {
		panic(fmt.Sprintf("cpu: Gemm: Active of %d products with LDC=%d, expected one with LDC=%d", count, p.ldc, a.N))
	}
	d.products.gemm(p, count, a.StrideA, a.StrideB, a.StrideC)
	*p = product[T]{}
	if n := a.M * a.N; a.Active.Present() {
		d.floats("Gemm Active", a.Active, n)
		d.Activate(a.F, a.Active.Slice(0, n), a.C.Slice(0, n))
	}
}

func leading(what string, ld, cols int) int {
	if ld == 0 {
		return cols
	}
	if ld < cols {
		panic(fmt.Sprintf("cpu: Gemm: leading dimension %d of %s, expected at least %d", ld, what, cols))
	}
	return ld
}

// matrix returns the elements of count operands stored [rows, cols], or [cols, rows] where trans is set, and their
// leading dimension.
func (d *dev[T]) matrix(what string, v device.View, trans bool, rows, cols, ld, count, stride int) ([]T, int) {
	if trans {
		rows, cols = cols, rows
	}
	ld = leading(what, ld, cols)
	need := 0
	if rows > 0 && cols > 0 {
		need = (count-1)*stride + (rows-1)*ld + cols
	}
	if need == 0 && !v.Present() {
		return nil, ld
	}
	return d.floats(what, v, need), ld
}
