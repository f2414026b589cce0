//go:build (amd64 || arm64) && !nodl

package driver

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/ebitengine/purego"
)

// cublas is cuBLAS by dlopen, bound to one stream.
type cublas struct {
	path    string
	handle  uintptr
	version int
	fn      cublasSymbols
	args    [24]uintptr // of a call, which then allocates nothing
	out     *blasOutputs
	lt      cublasLt
}

type cublasSymbols struct {
	cublasCreate_v2, cublasDestroy_v2, cublasSetStream_v2, cublasSetWorkspace_v2, cublasGetVersion_v2,
	cublasGemmStridedBatchedEx entry
}

type blasOutputs struct {
	handle      uintptr
	n           int32
	alpha, beta float32
}

// OpenBLAS loads cuBLAS from a path and binds it to a stream. Call it on the thread of the context.
func OpenBLAS(path string, s Stream) (BLAS, error) {
	lib, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load cuBLAS: %w", err)
	}
	b := &cublas{path: path, out: new(blasOutputs)}
	if _, err := find(lib, &b.fn); err != nil {
		return nil, fmt.Errorf("%s is not cuBLAS 11 or later: %w", path, err)
	}
	if err := b.call(&b.fn.cublasCreate_v2, uintptr(unsafe.Pointer(&b.out.handle))); err != nil {
		return nil, err
	}
	b.handle = b.out.handle
	if err := cmp.Or(b.call(&b.fn.cublasSetStream_v2, b.handle, uintptr(s)),
		b.call(&b.fn.cublasGetVersion_v2, b.handle, uintptr(unsafe.Pointer(&b.out.n)))); err != nil {
		return nil, err
	}
	b.version = int(b.out.n)
	b.lt.open(b, lib, s)
	return b, nil
}

func (b *cublas) call(e *entry, args ...uintptr) error {
	n := copy(b.args[:], args)
	if r, _, _ := purego.SyscallN(e.addr, b.args[:n]...); int32(r) != 0 {
		return &Error{Call: e.name, Code: int(int32(r)), Name: blasStatus(int(int32(r)))}
	}
	return nil
}

func (b *cublas) Path() string { return b.path }
func (b *cublas) Version() int { return b.version }

// Workspace gives the handle memory of the caller (cublasSetWorkspace), which must outlive it. Otherwise versions
// before 12.2 keep memory for every graph with products, and later versions record allocations.
func (b *cublas) Workspace(p Ptr, bytes int) error {
	b.lt.space, b.lt.bytes = p, bytes
	return b.call(&b.fn.cublasSetWorkspace_v2, b.handle, uintptr(p), uintptr(bytes))
}

func (b *cublas) Close() error {
	err := b.call(&b.fn.cublasDestroy_v2, b.handle)
	if b.lt.available {
		err = cmp.Or(err, b.call(&b.lt.fn.cublasLtDestroy, b.lt.handle))
	}
	return err
}

const defaultAlgo = ^uintptr(0) // CUBLAS_GEMM_DEFAULT = -1

// dataType is the cudaDataType of values.
func dataType(half bool) uintptr {
	if half {
		return 14 // CUDA_R_16BF
	}
	return 0 // CUDA_R_32F
}

// operation is the cublasOperation_t.
func operation(t bool) uintptr {
	if t {
		return 1 // CUBLAS_OP_T
	}
	return 0 // CUBLAS_OP_N
}

// Gemm turns the row-major product into the column-major one of the transposes, Cᵀ = op(B)ᵀ·op(A)ᵀ.
func (b *cublas) Gemm(g *Gemm) error {
	b.out.alpha, b.out.beta = g.Alpha, g.Beta
	operand, result := dataType(g.Half), dataType(g.HalfC)
	return b.call(&b.fn.cublasGemmStridedBatchedEx, b.handle, operation(g.TransB), operation(g.TransA),
		uintptr(g.N), uintptr(g.M), uintptr(g.K), uintptr(unsafe.Pointer(&b.out.alpha)),
		uintptr(g.B), operand, uintptr(g.LDB), uintptr(g.StrideB), uintptr(g.A), operand, uintptr(g.LDA),
		uintptr(g.StrideA),
		uintptr(unsafe.Pointer(&b.out.beta)), uintptr(g.C), result, uintptr(g.LDC), uintptr(g.StrideC),
		uintptr(g.Count), uintptr(g.Compute), defaultAlgo)
}
