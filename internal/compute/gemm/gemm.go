package gemm

import (
	"errors"
	"fmt"
	"strings"

	"vsetrain/internal/compute/par"
)

// Options choose the implementation.
type Options struct {
	// Kernel is "" for the best of this CPU, or one of "amx", "avx512", "avx2", "neon", "generic", "gonum", "openblas",
	// "mkl", "accelerate".
	Kernel string
}

// Args is one product, row major:
//
//	C[M, N] = Alpha * op(A)[M, K] * op(B)[K, N] + Beta * C (+ Bias[N] added to each row when not nil)
//
// TransA: A is stored [K, M]; TransB: B is stored [N, K]. LDA, LDB, LDC are the distances between stored rows in
// elements. C must not overlap A, B or Bias.
type Args struct {
	TransA, TransB bool
	M, N, K        int
	Alpha          float32
	A              []float32
	LDA            int
	B              []float32
	LDB            int
	Beta           float32
	C              []float32
	LDC            int
	Bias           []float32
	Precision      Precision
}

// Precision is how float32 operands are multiplied. Products always accumulate in float32.
type Precision uint8

const (
	Float32 Precision = iota // as float32
	// FixedPoint is float32 for operands whose rows (of op(A)) and columns (of op(B)) have values of a similar
	// magnitude. Where it is faster, the error of an element of C is relative to the largest values of its row and
	// column (doc.go).
	FixedPoint
	BF16 // operands are rounded to bf16, to nearest even
	// Int16 is for operands that are integers of at most Int16Limit. If the sum of the magnitudes of all terms of an
	// element of C is below 2^31, the element is exact up to rounding to float32. Few processors have it (HasInt16).
	Int16
)

// Engine computes products on a pool of threads. It owns its workspaces, which grow to the largest product; after that
// only gonum allocates. An Engine is not safe for concurrent use.
type Engine struct {
	pool       *par.Pool
	name       string
	f32        *kernel
	split      *kernel // for float32 products of which splits is true; may be nil
	fixed      *kernel // for FixedPoint products of which fixes is true; may be nil
	bf16       *kernel
	int16      *kernel // may be nil
	lib        library // external float32 products, or nil
	workers    []worker
	shared     []float32 // packed blocks of the smaller operand
	job        job
	packing    packPhase
	working    workPhase
	batch      batchPhase
	transposed transposedPhase
	given      Packed // B given row by row, packed by the product
	product    Args   // a product made from the caller's
}

// library is a complete float32 product of another package; Args are checked, M, N, K, Alpha not zero.
type library interface {
	name() string
	gemm(e *Engine, a *Args)
}

// ErrNoLibrary is wrapped by the error of New if the shared library of the kernel cannot be loaded.
var ErrNoLibrary = errors.New("library not found")

// New returns an engine on the pool's threads. It fails if this machine does not have the kernel.
func New(pool *par.Pool, o Options) (*Engine, error) {
	e := &Engine{pool: pool}
	kernels := available()
	e.f32, e.split, e.fixed, e.bf16, e.int16 = kernels[0], splitting(), fixing(), bestBF16(), bestInt16()
	if o.Kernel != "" && o.Kernel != "amx" {
		e.split, e.fixed = nil, nil
	}
	switch o.Kernel {
	case "":
	case "amx":
		if e.split == nil {
			return nil, notAvailable(o.Kernel, kernels)
		}
	case "gonum":
		e.lib = gonumBLAS{}
	case "openblas", "mkl", "accelerate":
		lib, err := openLibrary(o.Kernel, pool.Threads())
		if err != nil {
			return nil, err
		}
		e.lib = lib
	default:
		e.f32 = nil
		for _, k := range kernels {
			if k.name == o.Kernel {
				e.f32 = k
			}
		}
		if e.f32 == nil {
			return nil, notAvailable(o.Kernel, kernels)
		}
		if o.Kernel != kernels[0].name {
			e.bf16, e.int16 = nil, nil // a chosen lesser CPU does not have these instructions either
		}
	}
	e.name = e.f32.name
	if e.split != nil {
		e.name = e.split.name
	}
	if e.lib != nil {
		e.name = e.lib.name()
	}
	if e.bf16 == nil {
		e.bf16 = emulated(e.f32)
	}
	e.workers = make([]worker, pool.Threads())
	for i := range e.workers {
		e.workers[i].tmp, e.workers[i].zeros = aligned(scratchWords), aligned(64)
	}
	e.packing.e, e.working.e, e.batch.e, e.transposed.e = e, e, e, e
	return e, nil
}

func notAvailable(name string, kernels []*kernel) error {
	s := ""
	if splitting() != nil {
		s = "amx, "
	}
	for _, k := range kernels {
		s += k.name + ", "
	}
	return fmt.Errorf("gemm: kernel %q is not available on this CPU; available: %s%s", name, s,
		strings.Join(append([]string{"gonum"}, Libraries()...), ", "))
}

// Name is the float32 implementation in use, e.g. "amx", "avx512" or "openblas 0.3.21 (libopenblas.so.0)".
func (e *Engine) Name() string { return e.name }

// external reports whether products of a precision are computed by another package.
func (e *Engine) external(p Precision) bool { return e.lib != nil && p != BF16 && p != Int16 }

// External reports whether float32 products are computed by another package.
func (e *Engine) External() bool { return e.lib != nil }

// BF16Name is the bf16 implementation in use: "amx", "avx512", "avx512bf16", "neonbf16" or "emulated".
func (e *Engine) BF16Name() string { return e.bf16.name }

// Fastest returns the precision of the fastest products of this CPU, whatever its rounding error: BF16 on AMX,
// otherwise Int16, BF16 with other instructions, or Float32.
func (e *Engine) Fastest() Precision {
	switch {
	case e.int16 != nil && e.bf16.name != "amx":
		return Int16
	case e.bf16.bf16:
		return BF16
	}
	return Float32
}

// kernel is the kernel of a precision for products of k terms.
func (e *Engine) kernel(p Precision, k int) *kernel {
	switch {
	case p == BF16:
		return e.bf16
	case p == Int16 && e.int16 == nil:
		panic("gemm: this CPU has no kernel for products in Int16")
	case p == Int16:
		return e.int16
	case p == FixedPoint && e.fixed != nil && fixes(k):
		return e.fixed
	case e.split != nil && splits(k):
		return e.split
	}
	return e.f32
}

// splits reports whether float32 products of k terms are computed as products of bf16 parts, if the CPU can. Rounding k
// up to a multiple of 32 terms must not cost what the parts gain. The answer depends on k alone, like the results.
func splits(k int) bool { return k >= 64 && roundUp(k, 32)*4 <= 5*k }

// Gemm computes the product a. It panics if a slice is too short for its shape.
func (e *Engine) Gemm(a *Args) {
	a.checkC()
	if a.scaleOnly() {
		return
	}
	a.checkA()
	a.checkB()
	if e.external(a.Precision) {
		e.lib.gemm(e, a)
		return
	}
	e.multiply(a, nil, nil)
}

// scaleOnly does the products without terms (K or Alpha zero, or no elements) and reports whether it did.
func (a *Args) scaleOnly() bool {
	if a.M == 0 || a.N == 0 {
		return true
	}
	if a.K != 0 && a.Alpha != 0 {
		return false
	}
	for i := range a.M {
		scaleRow(a.C[i*a.LDC:][:a.N], a.Beta, a.Bias)
	}
	return true
}

func scaleRow(c []float32, beta float32, bias []float32) {
	switch beta {
	case 0:
		clear(c)
	case 1:
	default:
		for j := range c {
			c[j] *= beta
		}
	}
	if bias != nil {
		for j := range c {
			c[j] += bias[j]
		}
	}
}
