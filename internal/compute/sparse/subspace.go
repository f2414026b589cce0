package sparse

import (
	"context"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
)

// solver finds the leading eigenpairs of G. A pass of the iteration is
//
//	X <- T_d(2 G / beta - I) X     beta the smallest Ritz value: what lies below it is damped, the rest grows
//	X <- orthonormal basis of X
//	H  = X^T G X = U diag(theta) U^T,   X <- X U      (Rayleigh-Ritz)
//	R  = G X - X diag(theta)
type solver struct {
	*algebra
	op   *operator
	o    SVDOptions
	draw *philox.Stream

	x, gx    *block
	values   []float64 // Ritz values theta, decreasing
	errors   []float64 // norm of each column of R
	passes   int
	residual float64
	angle    float64
}

// iterate runs passes on x until the first K columns are known to the tolerance.
func (s *solver) iterate(ctx context.Context, x *block) error {
	s.x, s.gx = x, newBlock(x.rows, x.panels)
	for i := range x.data {
		x.data[i] = s.draw.Norm()
	}
	for range 2 {
		s.op.applyAll(s.pool, s.x, s.gx)
		s.x, s.gx = s.gx, s.x
	}
	start := 0.0
	for ; ; s.passes++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.rayleighRitz(); err != nil {
			return err
		}
		target := s.target()
		if s.passes == 0 {
			start = s.norm()
		}
		if s.o.Progress != nil {
			s.o.Progress(percent(start, s.norm(), target))
		}
		if s.norm() <= target {
			return nil
		}
		if s.passes == s.o.MaxPasses {
			return fmt.Errorf("%w in %d passes: the subspace may be off by %.2g radians, wanted %.2g", errNotConverged,
				s.passes, s.angle, s.o.Tolerance)
		}
		beta := max(s.values[len(s.values)-1], 1e-14*s.values[0])
		s.filter(beta, s.degrees(beta, target/math.Sqrt(float64(s.o.K))))
	}
}

// percent tells how far the residual has come from start to target, in orders of magnitude.
func percent(start, now, target float64) int {
	if now <= target || start <= target {
		return 100
	}
	return int(100 * max(0, math.Log(start/now)) / math.Log(start/target))
}

// norm is the Frobenius norm of the wanted columns of R.
func (s *solver) norm() float64 {
	var sum float64
	for _, e := range s.errors[:s.o.K] {
		sum += e * e
	}
	return math.Sqrt(sum)
}

// target is the norm of R at which the angle between the wanted columns and the exact subspace, at most
// ‖R‖ / (theta_k - theta_{k+1}) (Davis and Kahan), is below the tolerance. Rounding sets a floor to it.
func (s *solver) target() float64 {
	k := s.o.K
	gap := max(s.values[k-1]-s.values[k], minGap*s.values[k-1])
	floor := 1e-14 * s.values[0] * math.Sqrt(float64(k))
	s.angle, s.residual = 0, 0
	if n := s.norm(); n > floor {
		s.angle = n / gap
	}
	for _, e := range s.errors[:k] {
		if e > 0 {
			s.residual = max(s.residual, e/s.values[0])
		}
	}
	return max(s.o.Tolerance*gap, floor)
}

// rayleighRitz orthonormalises X, rotates it to Ritz vectors, and leaves G X in gx and the Ritz values and residual
// norms in values and errors.
func (s *solver) rayleighRitz() error {
	if err := s.orthonormalise(s.x, s.draw); err != nil {
		return err
	}
	s.op.applyAll(s.pool, s.x, s.gx)
	p := s.x.cols()
	h := make([]float64, p*p)
	s.inner(s.x, s.gx, h)
	values, vectors, err := eigen(h, p)
	if err != nil {
		return err
	}
	s.values = values
	s.mul(s.x, vectors, false)
	s.op.applyAll(s.pool, s.x, s.gx)
	s.errors = make([]float64, p)
	s.pool.For(s.x.panels, par.Func(func(_, i int) {
		x, gx, sum := s.x.panel(i), s.gx.panel(i), [panelWidth]float64{}
		theta := s.values[i*panelWidth:][:panelWidth]
		for r := 0; r < len(x); r += panelWidth {
			for j := range sum {
				d := gx[r+j] - theta[j]*x[r+j]
				sum[j] += d * d
			}
		}
		for j, v := range sum {
			s.errors[i*panelWidth+j] = math.Sqrt(v)
		}
	}))
	return nil
}

// filter applies the Chebyshev polynomial of its own degree to each panel of X. G X is at hand in gx.
func (s *solver) filter(beta float64, degrees []int) {
	// T_{n+1}(t) = 2 t T_n(t) - T_{n-1}(t) with t = 2 G / beta - I.
	s.pool.For(s.x.panels, par.Func(func(worker, i int) {
		if degrees[i] == 0 {
			return
		}
		last, now := s.x.panel(i), s.gx.panel(i)
		for j, x := range last {
			now[j] = 2/beta*now[j] - x
		}
		for range degrees[i] - 1 {
			s.op.apply(worker, now, last, 4/beta, -2, -1, false)
			last, now = now, last
		}
		copy(s.x.panel(i), now)
	}))
}

const (
	maxDegree = 24
	swamp     = 1e3
)

// degrees chooses the degree of each panel: enough to bring its residuals from where they are to want, but so few that
// what a column still holds of the largest eigenvectors does not outgrow the column itself by more than swamp, which
// orthonormalisation pays for with lost digits.
func (s *solver) degrees(beta, want float64) []int {
	k := s.o.K
	growth := func(i int) float64 { return math.Acosh(max(1, 2*s.values[i]/beta-1)) }
	logCosh := func(u float64) float64 { return u + math.Log1p(math.Exp(-2*u)) - math.Ln2 }
	slow := growth(k - 1)
	limit := maxDegree
	for i := range k {
		held := math.Log(max(1e-15, s.errors[i]/max(s.values[i], math.SmallestNonzeroFloat64)))
		for limit > 1 && held+logCosh(float64(limit)*growth(i))-logCosh(float64(limit)*slow) > math.Log(swamp) {
			limit--
		}
	}
	need := func(i int) int {
		if s.errors[i] <= want/4 {
			return 0
		}
		n := math.Log(4*s.errors[i]/want) / max(growth(i), 1e-3)
		return int(min(float64(limit), math.Ceil(n)+1))
	}
	out := make([]int, s.x.panels)
	for p := range out {
		for i := p * panelWidth; i < min(k, (p+1)*panelWidth); i++ {
			out[p] = max(out[p], need(i))
		}
		if (p+1)*panelWidth > k { // the guard vectors go with the last wanted ones
			out[p] = max(out[p], need(k-1))
		}
	}
	return out
}

// eigen returns the eigenvalues, decreasing, and eigenvectors (columns) of the symmetric matrix h [n, n].
func eigen(h []float64, n int) (values, vectors []float64, err error) {
	var e mat.EigenSym
	if !e.Factorize(mat.NewSymDense(n, h), true) {
		return nil, nil, fmt.Errorf("the eigenvalues of a matrix [%d, %d] did not converge", n, n)
	}
	up := e.Values(nil)
	var q mat.Dense
	e.VectorsTo(&q)
	values, vectors = make([]float64, n), make([]float64, n*n)
	for i := range n {
		values[i] = up[n-1-i]
		for r := range n {
			vectors[r*n+i] = q.At(r, n-1-i)
		}
	}
	return values, vectors, nil
}

// direct solves the dense eigenproblem of a small G [w, w].
func (s *solver) direct(w int) error {
	panels := (w + panelWidth - 1) / panelWidth
	eye := newBlock(w, panels)
	for i := range w {
		eye.setColumn(i, func(r int) float64 {
			if r == i {
				return 1
			}
			return 0
		})
	}
	s.x, s.gx = eye, newBlock(w, panels)
	s.op.applyAll(s.pool, s.x, s.gx)
	h := make([]float64, w*w)
	for c := range w {
		for r := range w {
			h[r*w+c] = s.gx.panel(c / panelWidth)[r*panelWidth+c%panelWidth]
		}
	}
	values, vectors, err := eigen(h, w)
	if err != nil {
		return err
	}
	s.values = values
	for c := range w {
		s.x.setColumn(c, func(r int) float64 { return vectors[r*w+c] })
	}
	return nil
}
