package sparse

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// randomCSR returns a matrix [rows, cols] with about perRow positive entries a row, skewed to the first columns as
// words are.
func randomCSR(seed uint64, rows, cols, perRow int) *CSR {
	s := philox.NewKey(seed, "test/csr").Stream(0)
	a := &CSR{Rows: rows, Cols: cols, RowPtr: make([]int, rows+1)}
	for r := range rows {
		set := map[int32]bool{}
		for range s.IntN(2*perRow + 1) {
			u := s.Float64()
			set[int32(u*u*u*float64(cols))] = true
		}
		for c := range int32(cols) {
			if set[c] {
				a.Col, a.Val = append(a.Col, c), append(a.Val, 0.2+s.Float64())
			}
		}
		a.RowPtr[r+1] = len(a.Col)
	}
	return a
}

func (a *CSR) toDense() *mat.Dense {
	d := mat.NewDense(a.Rows, a.Cols, nil)
	for r := range a.Rows {
		cols, vals := a.Row(r)
		for i, c := range cols {
			d.Set(r, int(c), vals[i])
		}
	}
	return d
}

// exact returns all singular values and the right vectors [w, w or rows] of gonum's dense SVD.
func exact(t *testing.T, a *CSR) ([]float64, *mat.Dense) {
	t.Helper()
	var svd mat.SVD
	if !svd.Factorize(a.toDense(), mat.SVDThin) {
		t.Fatal("the dense reference did not converge")
	}
	var v mat.Dense
	svd.VTo(&v)
	return svd.Values(nil), &v
}

func newPool(t *testing.T, threads int) *par.Pool {
	pool := par.New(threads)
	t.Cleanup(pool.Close)
	return pool
}

func compute(t *testing.T, threads int, a *CSR, o SVDOptions) *SVD {
	t.Helper()
	return try.Get(TruncatedSVD(context.Background(), newPool(t, threads), a, o))(t)
}

// subspaceDistance is the sine of the largest angle between the span of v [w, k] and the span of the first k columns of
// ref.
func subspaceDistance(v []float64, w, k int, ref *mat.Dense) float64 {
	x, y := mat.NewDense(w, k, v), ref.Slice(0, w, 0, k)
	var c, rest mat.Dense
	c.Mul(y.T(), x)
	rest.Mul(y, &c)
	rest.Sub(x, &rest)
	return mat.Norm(&rest, 2)
}

func checkOrthonormal(t *testing.T, v []float64, w, k int) {
	t.Helper()
	x := mat.NewDense(w, k, v)
	var m mat.Dense
	m.Mul(x.T(), x)
	for i := range k {
		for j := range k {
			want := 0.0
			if i == j {
				want = 1
			}
			if d := math.Abs(m.At(i, j) - want); !(d < 1e-12) {
				t.Fatalf("V^T V [%d, %d] is off by %g", i, j, d)
			}
		}
	}
}

func TestSVDAgainstDense(t *testing.T) {
	for _, c := range []struct {
		rows, cols, perRow, k int
		gram                  int
		direct                bool
	}{
		{120, 30, 4, 7, 0, true},
		{900, 260, 6, 20, 0, false},
		{900, 260, 6, 20, -1, false}, // A and its transpose applied in turn
		{200, 300, 5, 33, 0, false},  // fewer rows than columns
		{1500, 400, 7, 60, 0, false},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			a := randomCSR(11, c.rows, c.cols, c.perRow)
			sigma, v := exact(t, a)
			s := compute(t, 2, a, SVDOptions{K: c.k, gramLimit: c.gram})
			if (s.Passes == 0) != c.direct {
				t.Errorf("%d passes", s.Passes)
			}
			near(t, "singular values", s.Sigma, sigma[:c.k], 1e-11*sigma[0])
			checkOrthonormal(t, s.V(), c.cols, c.k)
			if d := subspaceDistance(s.V(), c.cols, c.k, v); !(d < 1e-7) {
				t.Errorf("subspace is %g off (bound %g, gap %g)", d, s.Angle, sigma[c.k-1]-sigma[c.k])
			}
			checkGram(t, a, s, v)
		})
	}
}

// checkGram compares B B^T with A V_k V_k^T A^T.
func checkGram(t *testing.T, a *CSR, s *SVD, ref *mat.Dense) {
	t.Helper()
	k := len(s.Sigma)
	var want, exactB, got mat.Dense
	exactB.Mul(a.toDense(), ref.Slice(0, a.Cols, 0, k))
	want.Mul(&exactB, exactB.T())
	b := make([]float32, a.Rows*k)
	pool := newPool(t, 1)
	s.Project(pool, a, 0, a.Rows, b)
	wide := make([]float64, len(b))
	for i, v := range b {
		wide[i] = float64(v)
	}
	x := mat.NewDense(a.Rows, k, wide)
	got.Mul(x, x.T())
	got.Sub(&got, &want)
	if d := mat.Max(&got) / mat.Max(&want); !(d < 1e-6) || !(-mat.Min(&got)/mat.Max(&want) < 1e-6) {
		t.Errorf("Gram entries differ by %g of the largest", d)
	}
}

// blockDiagonal has copies groups of identical 2x3 blocks, so that every singular value is repeated.
func blockDiagonal(copies int) *CSR {
	a := &CSR{Rows: 2 * copies, Cols: 3 * copies, RowPtr: []int{0}}
	for g := range copies {
		for r := range 2 {
			for c := range 3 {
				a.Col, a.Val = append(a.Col, int32(3*g+c)), append(a.Val, []float64{1, 2, 0.5, 0.7, 0.1, 1.1}[3*r+c])
			}
			a.RowPtr = append(a.RowPtr, len(a.Col))
		}
	}
	return a
}

// With each singular value repeated the vectors are arbitrary inside each group, but the values, the span of whole
// groups and the rest of the properties are not.
func TestSVDRepeatedValues(t *testing.T) {
	const copies = 40
	a := blockDiagonal(copies)
	sigma, v := exact(t, a)
	s := compute(t, 2, a, SVDOptions{K: copies}) // the whole first group
	near(t, "singular values", s.Sigma, sigma[:copies], 1e-12)
	checkOrthonormal(t, s.V(), a.Cols, copies)
	if d := subspaceDistance(s.V(), a.Cols, copies, v); !(d < 1e-7) {
		t.Errorf("subspace is %g off", d)
	}
	s = compute(t, 2, a, SVDOptions{K: copies / 2}) // cuts through it
	near(t, "singular values of half a group", s.Sigma, sigma[:copies/2], 1e-12)
	checkOrthonormal(t, s.V(), a.Cols, copies/2)
}

// More vectors than the rank: the surplus ones have singular value 0 and project to nothing.
func TestSVDBeyondTheRank(t *testing.T) {
	a := randomCSR(3, 40, 300, 5)
	rank := 0
	sigma, _ := exact(t, a)
	for _, v := range sigma {
		if v > 1e-9 {
			rank++
		}
	}
	k := rank + 30
	s := compute(t, 2, a, SVDOptions{K: k})
	near(t, "singular values", s.Sigma[:rank], sigma[:rank], 1e-11*sigma[0])
	for i := rank; i < k; i++ {
		if !(s.Sigma[i] < 1e-9) {
			t.Errorf("singular value %d of a matrix of rank %d is %g", i, rank, s.Sigma[i])
		}
	}
	checkOrthonormal(t, s.V(), a.Cols, k)
	empty := &CSR{Rows: 3, Cols: 200, RowPtr: []int{0, 0, 0, 0}}
	s = compute(t, 2, empty, SVDOptions{K: 5})
	checkOrthonormal(t, s.V(), 200, 5)
	if m := slices.Max(s.Sigma); m != 0 {
		t.Errorf("zero matrix has singular value %g", m)
	}
}

func TestSVDDependsNotOnThreads(t *testing.T) {
	a := randomCSR(8, 3000, 500, 6)
	one := compute(t, 1, a, SVDOptions{K: 40})
	for _, threads := range []int{2, 5} {
		s := compute(t, threads, a, SVDOptions{K: 40})
		if !slices.Equal(one.V(), s.V()) || !slices.Equal(one.Sigma, s.Sigma) {
			t.Errorf("%d threads give other bits than one", threads)
		}
	}
}

// Permuting the rows permutes the rows of B and changes nothing else.
func TestSVDOfPermutedRows(t *testing.T) {
	a := randomCSR(9, 700, 220, 6)
	perm := make([]int32, a.Rows)
	philox.NewKey(1, "test/perm").Stream(0).Perm(perm)
	b := &CSR{Rows: a.Rows, Cols: a.Cols, RowPtr: []int{0}}
	for _, r := range perm {
		cols, vals := a.Row(int(r))
		b.Col, b.Val = append(b.Col, cols...), append(b.Val, vals...)
		b.RowPtr = append(b.RowPtr, len(b.Col))
	}
	const k = 12
	sa, sb := compute(t, 2, a, SVDOptions{K: k}), compute(t, 2, b, SVDOptions{K: k, Seed: 5})
	near(t, "singular values", sb.Sigma, sa.Sigma, 1e-11)
	near(t, "right vectors", sb.V(), sa.V(), 1e-6)
}

// The columns of B have their largest entry positive.
func TestSVDSigns(t *testing.T) {
	a := randomCSR(12, 300, 200, 5)
	s := compute(t, 2, a, SVDOptions{K: 9})
	b := make([]float32, a.Rows*9)
	pool := newPool(t, 2)
	s.Project(pool, a, 0, a.Rows, b)
	for c := range 9 {
		top := float32(0)
		for r := range a.Rows {
			if v := b[r*9+c]; max(v, -v) > max(top, -top) {
				top = v
			}
		}
		if top <= 0 {
			t.Errorf("column %d has its largest entry %v", c, top)
		}
	}
	part := make([]float32, 50*9)
	s.Project(pool, a, 17, 67, part)
	if !slices.Equal(part, b[17*9:67*9]) {
		t.Error("a part of the rows is projected to other values than all of them")
	}
}

func TestSVDErrors(t *testing.T) {
	pool := newPool(t, 1)
	good := randomCSR(1, 100, 200, 4)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := TruncatedSVD(canceled, pool, good, SVDOptions{K: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	if _, err := TruncatedSVD(context.Background(), pool, randomCSR(1, 3000, 900, 6),
		SVDOptions{K: 100, MaxPasses: 1}); !errors.Is(err, errNotConverged) {
		t.Errorf("one pass: %v", err)
	}
	bad := randomCSR(1, 100, 200, 4)
	bad.Val[7] = math.NaN()
	for _, c := range []struct {
		a    *CSR
		k    int
		want string
	}{{good, 0, "expected 1 <= k <= 200, found k = 0"}, {good, 201, "found k = 201"}, {bad, 3, "is not finite"}} {
		try.Refuses(TruncatedSVD(context.Background(), pool, c.a, SVDOptions{K: c.k}))(t, c.want)
	}
}

// V returns the right singular vectors [w, k].
func (s *SVD) V() []float64 {
	k := len(s.Sigma)
	out := make([]float64, s.v.rows*k)
	for p := range s.v.panels {
		c, panel := p*panelWidth, s.v.panel(p)
		for r := range s.v.rows {
			copy(out[r*k+c:r*k+min(k, c+panelWidth)], panel[r*panelWidth:])
		}
	}
	return out
}
