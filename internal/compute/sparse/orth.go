package sparse

import (
	"errors"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/lapack/lapack64"

	"vsetrain/internal/compute/philox"
)

// orthonormalise replaces the columns of X by an orthonormal basis that spans them, by Cholesky QR repeated until
// X^T X = I (CholeskyQR2: Yamamoto, Nakatsukasa, Yanagisawa and Fukaya, ETNA 44, 2015). Columns are scaled first. A
// column that depends on those before it to working precision is drawn anew, so that the result always has full rank.
func (l *algebra) orthonormalise(x *block, draw *philox.Stream) error {
	const (
		close = 0.1 // off by less, X has a condition near 1, and one more pass is exact to working precision
		most  = 20
	)
	p := x.cols()
	m, scale := make([]float64, p*p), make([]float64, p)
	for range most {
		l.inner(x, x, m)
		var off float64
		for i := range p {
			for j := range p {
				want := 0.0
				if i == j {
					want = 1
				}
				off = max(off, math.Abs(m[i*p+j]-want))
			}
		}
		if math.IsNaN(off) || math.IsInf(off, 0) {
			return errors.New("the block of vectors is no longer finite")
		}
		for i := range p {
			if scale[i] = 0; m[i*p+i] > 1e-290 {
				scale[i] = 1 / math.Sqrt(m[i*p+i])
			}
		}
		for i := range p {
			for j := range p {
				m[i*p+j] *= scale[i] * scale[j]
			}
		}
		r, ok := inverseFactor(m, p)
		if !ok {
			for least := 8 * float64(p) * 0x1p-52; !redraw(x, dependent(m, p, least), draw); {
				least *= 8
			}
			continue
		}
		for i := range p {
			for j := range p {
				r[i*p+j] *= scale[i]
			}
		}
		l.mul(x, r, true)
		if off < close {
			return nil
		}
	}
	return errors.New("the block of vectors cannot be made orthonormal")
}

// redraw fills columns with normal draws and reports whether there were any.
func redraw(x *block, columns []int, draw *philox.Stream) bool {
	for _, c := range columns {
		x.setColumn(c, func(int) float64 { return draw.Norm() })
	}
	return len(columns) > 0
}

// inverseFactor returns the inverse of the upper Cholesky factor of the matrix m [p, p] of unit diagonal, or false
// where it is not positive definite to working precision.
func inverseFactor(m []float64, p int) ([]float64, bool) {
	s := blas64.Symmetric{N: p, Stride: p, Uplo: blas.Upper, Data: append([]float64(nil), m...)}
	t, ok := lapack64.Potrf(s)
	if !ok || !lapack64.Trtri(t) {
		return nil, false
	}
	for i := range p {
		clear(t.Data[i*p : i*p+i])
	}
	return t.Data, true
}

// dependent lists the columns whose part orthogonal to the columns before them has a squared norm below least, given
// the inner products m [p, p] of columns of norm 1: those with a small pivot of the Cholesky factorisation.
func dependent(m []float64, p int, least float64) []int {
	var list []int
	f := append([]float64(nil), m...) // row i of the upper factor replaces row i of m
	for i := range p {
		row := f[i*p : (i+1)*p]
		if !(row[i] >= least) { // NaN too
			list = append(list, i)
			clear(row)
			continue
		}
		d := math.Sqrt(row[i])
		for j := i; j < p; j++ {
			row[j] /= d
		}
		for k := i + 1; k < p; k++ {
			if v := row[k]; v != 0 {
				below := f[k*p : (k+1)*p]
				for j := k; j < p; j++ {
					below[j] -= v * row[j]
				}
			}
		}
	}
	return list
}
