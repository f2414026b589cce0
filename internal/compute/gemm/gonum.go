package gemm

import (
	"gonum.org/v1/gonum/blas"
	gonum "gonum.org/v1/gonum/blas/gonum"

	"vsetrain/internal/compute/par"
)

// gonumBLAS hands products to gonum's Sgemm, parallel over blocks of rows. Gonum allocates at each call.
type gonumBLAS struct{}

const gonumRows = 64 // rows of C in one call; fixed, so that results do not depend on the number of threads

func (gonumBLAS) name() string { return "gonum" }

func (gonumBLAS) gemm(e *Engine, a *Args) {
	trans := map[bool]blas.Transpose{false: blas.NoTrans, true: blas.Trans}
	e.pool.For((a.M+gonumRows-1)/gonumRows, par.Func(func(_, i int) {
		m0 := i * gonumRows
		rows := min(gonumRows, a.M-m0)
		first := m0 * a.LDA
		if a.TransA {
			first = m0
		}
		left := a.A[first:]
		c := a.C[m0*a.LDC:]
		gonum.Implementation{}.Sgemm(trans[a.TransA], trans[a.TransB], rows, a.N, a.K, a.Alpha, left, a.LDA, a.B, a.LDB,
			a.Beta, c, a.LDC)
		addBias(c, rows, a)
	}))
}

// addBias adds the bias to rows of c.
func addBias(c []float32, rows int, a *Args) {
	for i := range rows {
		scaleRow(c[i*a.LDC:][:a.N], 1, a.Bias)
	}
}
