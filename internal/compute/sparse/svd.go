package sparse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
)

// SVDOptions controls TruncatedSVD.
type SVDOptions struct {
	K         int     // singular triplets wanted, 1 to the number of columns
	Seed      uint64  // seed of the start vectors
	Tolerance float64 // largest angle (radians) by which the subspace may miss the exact one; 0 means 1e-7
	MaxPasses int     // passes before the iteration gives up; 0 means 100

	// Progress, if set, is called after each pass with the progress towards the tolerance, in percent.
	Progress func(percent int)

	gramLimit int // for tests; 0 means maxGramWork, negative never to form G
}

// SVD is a truncated singular value decomposition A ~ U diag(Sigma) V^T with k triplets. V [w, k] has orthonormal
// columns; the sign of each is such that the largest entry by magnitude of the left vector, the first of equal ones, is
// positive.
type SVD struct {
	Sigma    []float64 // [k], decreasing up to rounding
	Residual float64   // largest ‖A^T A v - sigma^2 v‖ / sigma_1^2 of the k vectors
	Angle    float64   // bound on the angle of the subspace: ‖R‖ / max(gap after sigma_k^2, 1e-4 sigma_k^2)
	Passes   int       // filter passes; 0 if the matrix was small enough for a direct solver

	v       *block
	kernels kernels
}

// minGap is the smallest relative gap after the last wanted eigenvalue that the iteration tries to resolve. Inside a
// smaller gap the wanted subspace is not determined by the data, and any choice approximates A equally well.
const minGap = 1e-4

// guard returns the number of vectors iterated beside the k wanted ones, so that k of them are separated from the rest
// of the spectrum by more than the gap after the k-th.
func guard(k int) int { return max(16, k/5) }

// TruncatedSVD computes the k largest singular values of a and their right singular vectors, from the eigenvectors of
// G = A^T A on the side of the columns: Chebyshev-filtered subspace iteration (Zhou and Saad, SIAM J. Matrix Anal.
// Appl. 29, 2007) with a degree for each panel of vectors (Winkelmann, Springer and Di Napoli, ChASE, ACM TOMS 45,
// 2019), in float64 throughout. The result does not depend on the number of threads.
func TruncatedSVD(ctx context.Context, pool *par.Pool, a *CSR, o SVDOptions) (*SVD, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	if o.K < 1 || o.K > a.Cols {
		return nil, fmt.Errorf("truncated SVD of a matrix [%d, %d]: expected 1 <= k <= %d, found k = %d", a.Rows,
			a.Cols, a.Cols, o.K)
	}
	if o.Tolerance < 0 || math.IsNaN(o.Tolerance) || o.MaxPasses < 0 {
		return nil, fmt.Errorf("truncated SVD: tolerance %v and passes %d must not be negative", o.Tolerance,
			o.MaxPasses)
	}
	o.Tolerance = cmp.Or(o.Tolerance, 1e-7)
	o.MaxPasses = cmp.Or(o.MaxPasses, 100)
	o.gramLimit = cmp.Or(o.gramLimit, maxGramWork)
	k := available()[0]
	panels := (o.K + guard(o.K) + panelWidth - 1) / panelWidth
	s := &solver{
		algebra: newAlgebra(pool, k), op: newOperator(pool, a, k, o.gramLimit), o: o,
		draw: philox.NewKey(o.Seed, "sparse/svd").Stream(0),
	}
	var err error
	if a.Cols <= panels*panelWidth {
		err = s.direct(a.Cols)
	} else {
		err = s.iterate(ctx, newBlock(a.Cols, panels))
	}
	if err != nil {
		return nil, err
	}
	out := &SVD{Sigma: make([]float64, o.K), Residual: s.residual, Angle: s.angle, Passes: s.passes, v: s.x, kernels: k}
	out.v.cutTo(o.K)
	out.finish(pool, a)
	return out, nil
}

// cutTo drops the panels after column k and clears the columns after it in the last one.
func (b *block) cutTo(k int) {
	b.panels = (k + panelWidth - 1) / panelWidth
	b.data = append([]float64(nil), b.data[:b.rows*b.panels*panelWidth]...)
	for c := k; c < b.cols(); c++ {
		b.setColumn(c, func(int) float64 { return 0 })
	}
}

func (b *block) setColumn(c int, value func(r int) float64) {
	panel := b.panel(c / panelWidth)
	for r := range b.rows {
		panel[r*panelWidth+c%panelWidth] = value(r)
	}
}

// errNotConverged is wrapped by the error of an iteration that ran out of passes.
var errNotConverged = errors.New("the singular vectors did not converge")
