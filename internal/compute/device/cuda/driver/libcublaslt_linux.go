//go:build (amd64 || arm64) && !nodl

package driver

import (
	"cmp"
	"unsafe"
)

// cublasLt adds a bias to a product in the same kernel. The library comes with cuBLAS.
type cublasLt struct {
	handle    uintptr
	fn        ltSymbols
	out       *ltOutputs
	space     Ptr // memory of cuBLAS
	bytes     int
	stream    Stream
	available bool
}

type ltSymbols struct {
	cublasLtCreate, cublasLtDestroy, cublasLtMatmulDescCreate, cublasLtMatmulDescSetAttribute,
	cublasLtMatmulDescDestroy, cublasLtMatrixLayoutCreate, cublasLtMatrixLayoutDestroy,
	cublasLtMatmulPreferenceCreate, cublasLtMatmulPreferenceSetAttribute, cublasLtMatmulPreferenceDestroy,
	cublasLtMatmulAlgoGetHeuristic, cublasLtMatmul entry
}

type ltOutputs struct {
	operation, preference uintptr
	layouts               [3]uintptr // of A, B and C, in column-major order
	handle                uintptr
	value                 uint64 // of an attribute
	found                 int32
	alpha, beta           float32
	algorithm             struct { // cublasLtMatmulHeuristicResult_t
		algorithm [8]uint64
		workspace uint64
		state     int32
		waves     float32
		reserved  [4]int32
	}
}

// The attributes that are set (cublasLt.h).
const (
	ltTransA, ltTransB, ltEpilogue, ltBias = 3, 4, 7, 8
	ltMaxWorkspace, ltAlignmentA           = 1, 5 // the alignments of A, B, C and D follow each other
	ltEpilogueBias                         = 4
)

// open finds the functions in a library or its dependencies. Without them there is no cublasLt.
func (l *cublasLt) open(b *cublas, lib uintptr, s Stream) {
	l.out, l.stream = new(ltOutputs), s
	if _, err := find(lib, &l.fn); err != nil {
		return
	}
	if b.call(&l.fn.cublasLtCreate, uintptr(unsafe.Pointer(&l.out.handle))) == nil {
		l.handle, l.available = l.out.handle, true
	}
}

// GemmBias implements BLAS.
func (b *cublas) GemmBias(g *Gemm) (err error) {
	l, o := &b.lt, b.lt.out
	if !l.available || g.Count > 1 {
		return notSupported(&l.fn.cublasLtMatmul)
	}
	keep := func(e error) { err = cmp.Or(err, e) }
	set := func(e *entry, what uintptr, attribute int, value uint64, bytes uintptr) {
		o.value = value
		keep(b.call(e, what, uintptr(attribute), uintptr(unsafe.Pointer(&o.value)), bytes))
	}
	operand := dataType(g.Half)
	*o = ltOutputs{handle: o.handle, alpha: g.Alpha, beta: g.Beta}
	keep(b.call(&l.fn.cublasLtMatmulDescCreate, uintptr(unsafe.Pointer(&o.operation)), uintptr(g.Compute),
		dataType(false)))
	keep(b.call(&l.fn.cublasLtMatmulPreferenceCreate, uintptr(unsafe.Pointer(&o.preference))))
	// The transposes, Cᵀ = op(B)ᵀ·op(A)ᵀ, of column-major matrices.
	matrix := func(i int, kind uintptr, rows, cols, ld int, transposed bool) {
		if transposed {
			rows, cols = cols, rows
		}
		keep(b.call(&l.fn.cublasLtMatrixLayoutCreate, uintptr(unsafe.Pointer(&o.layouts[i])), kind, uintptr(rows),
			uintptr(cols), uintptr(ld)))
	}
	matrix(0, operand, g.N, g.K, g.LDB, g.TransB)
	matrix(1, operand, g.K, g.M, g.LDA, g.TransA)
	matrix(2, dataType(false), g.N, g.M, g.LDC, false)
	if err == nil {
		set(&l.fn.cublasLtMatmulDescSetAttribute, o.operation, ltTransA, uint64(operation(g.TransB)), 4)
		set(&l.fn.cublasLtMatmulDescSetAttribute, o.operation, ltTransB, uint64(operation(g.TransA)), 4)
		set(&l.fn.cublasLtMatmulDescSetAttribute, o.operation, ltEpilogue, ltEpilogueBias, 4)
		set(&l.fn.cublasLtMatmulDescSetAttribute, o.operation, ltBias, uint64(g.Bias), 8)
		set(&l.fn.cublasLtMatmulPreferenceSetAttribute, o.preference, ltMaxWorkspace, uint64(l.bytes), 8)
		for i, p := range [4]Ptr{g.B, g.A, g.C, g.C} {
			set(&l.fn.cublasLtMatmulPreferenceSetAttribute, o.preference, ltAlignmentA+i, min(256, uint64(p&-p)), 4)
		}
	}
	if err == nil {
		keep(b.call(&l.fn.cublasLtMatmulAlgoGetHeuristic, l.handle, o.operation, o.layouts[0], o.layouts[1],
			o.layouts[2], o.layouts[2], o.preference, 1, uintptr(unsafe.Pointer(&o.algorithm)),
			uintptr(unsafe.Pointer(&o.found))))
	}
	if err != nil || o.found == 0 || o.algorithm.state != 0 { // nothing has happened yet
		err = notSupported(&l.fn.cublasLtMatmulAlgoGetHeuristic)
	}
	if err == nil {
		keep(b.call(&l.fn.cublasLtMatmul, l.handle, o.operation, uintptr(unsafe.Pointer(&o.alpha)), uintptr(g.B),
			o.layouts[0], uintptr(g.A), o.layouts[1], uintptr(unsafe.Pointer(&o.beta)), uintptr(g.C), o.layouts[2],
			uintptr(g.C), o.layouts[2], uintptr(unsafe.Pointer(&o.algorithm)), uintptr(l.space),
			uintptr(o.algorithm.workspace), uintptr(l.stream)))
	}
	for _, p := range o.layouts {
		if p != 0 {
			keep(b.call(&l.fn.cublasLtMatrixLayoutDestroy, p))
		}
	}
	if o.preference != 0 {
		keep(b.call(&l.fn.cublasLtMatmulPreferenceDestroy, o.preference))
	}
	if o.operation != 0 {
		keep(b.call(&l.fn.cublasLtMatmulDescDestroy, o.operation))
	}
	return err
}

func notSupported(e *entry) error {
	return &Error{Call: e.name, Code: codeNotSupported, Name: blasStatus(codeNotSupported)}
}
