package sparse

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

func randomBlock(name string, rows, panels int) *block {
	return &block{rows, panels, normals(name, rows*panels*panelWidth)}
}

func (b *block) toDense() *mat.Dense {
	d := mat.NewDense(b.rows, b.cols(), nil)
	for c := range b.cols() {
		for r := range b.rows {
			d.Set(r, c, b.panel(c / panelWidth)[r*panelWidth+c%panelWidth])
		}
	}
	return d
}

// The dense products equal gonum's, for every kernel and for sizes that fill no step or group.
func TestBlockProducts(t *testing.T) {
	pool := newPool(t, 2)
	for _, k := range available() {
		l := newAlgebra(pool, k)
		for _, rows := range []int{1, 9, 131, 300} {
			x := randomBlock("x", rows, 5)
			p := x.cols()
			m := make([]float64, p*p)
			l.inner(x, x, m)
			var want mat.Dense
			want.Mul(x.toDense().T(), x.toDense())
			near(t, k.name+" inner", m, want.RawMatrix().Data, 1e-11)

			c := normals("c", p*p)
			for i := range p {
				clear(c[i*p : i*p+i])
			}
			want.Reset()
			want.Mul(x.toDense(), mat.NewDense(p, p, c))
			for _, upper := range []bool{true, false} {
				y := &block{rows, 5, append([]float64(nil), x.data...)}
				l.mul(y, c, upper)
				near(t, k.name+" mul", y.toDense().RawMatrix().Data, want.RawMatrix().Data, 1e-11)
			}
		}
	}
}

// Orthonormalisation survives columns that are tiny, huge, equal, dependent or zero, and keeps the span.
func TestOrthonormalise(t *testing.T) {
	pool := newPool(t, 2)
	l := newAlgebra(pool, available()[0])
	x := randomBlock("x", 90, 3)
	column := func(c int) func(int) float64 {
		d := x.toDense()
		return func(r int) float64 { return d.At(r, c) }
	}
	first, second := column(0), column(1)
	x.setColumn(3, func(r int) float64 { return 1e-140 * float64(r%7) })
	x.setColumn(4, func(r int) float64 { return 1e140 * float64(r%5) })
	x.setColumn(9, first)
	x.setColumn(20, func(r int) float64 { return first(r) - 2*second(r) + 1e-12*float64(r%3) })
	x.setColumn(33, func(int) float64 { return 0 })
	try.Do(t, l.orthonormalise(x, philox.NewKey(1, "test").Stream(0)))
	d := x.toDense()
	checkOrthonormal(t, d.RawMatrix().Data, x.rows, x.cols())
	var c mat.VecDense
	v := mat.NewVecDense(x.rows, nil)
	for r := range x.rows {
		v.SetVec(r, first(r)+3*second(r))
	}
	c.MulVec(d.T(), v)
	v2 := mat.NewVecDense(x.rows, nil)
	v2.MulVec(d, &c)
	v2.SubVec(v2, v)
	if n := mat.Norm(v2, 2) / mat.Norm(v, 2); n > 1e-12 {
		t.Errorf("the basis misses a vector of the old span by %g", n)
	}
}

// Columns that nearly depend on each other, and a basis that is off by little, end orthonormal to working precision,
// too.
func TestOrthonormaliseAgain(t *testing.T) {
	pool := newPool(t, 2)
	l := newAlgebra(pool, available()[0])
	x := randomBlock("x", 400, 2)
	x.setColumn(20, func(r int) float64 { return x.panel(0)[r*panelWidth] + 1e-5*float64(r%11) }) // needs a second pass
	for _, off := range []float64{0, 1e-12, 1e-9, 1e-6, 1e-4} {
		for i, v := range normals("noise", len(x.data)) {
			x.data[i] += off / 20 * v
		}
		try.Do(t, l.orthonormalise(x, philox.NewKey(1, "test").Stream(0)))
		checkOrthonormal(t, x.toDense().RawMatrix().Data, x.rows, x.cols())
	}
}

// On a diagonal G the filter multiplies row i by T_d(2 lambda_i / beta - 1), d being the degree of the panel.
func TestFilter(t *testing.T) {
	pool := newPool(t, 2)
	const w = 60
	a := &CSR{Rows: w, Cols: w, RowPtr: []int{0}}
	lambda := func(i int) float64 { return 0.02 * float64(i+1) }
	for i := range w {
		a.Col, a.Val, a.RowPtr = append(a.Col, int32(i)), append(a.Val, math.Sqrt(lambda(i))), append(a.RowPtr, i+1)
	}
	for _, limit := range []int{maxGramWork, -1} {
		k := available()[0]
		start := randomBlock("x", w, 4)
		s := &solver{algebra: newAlgebra(pool, k), op: newOperator(pool, a, k, limit), gx: newBlock(w, 4)}
		s.x = &block{w, 4, append([]float64(nil), start.data...)}
		s.op.applyAll(pool, s.x, s.gx)
		degrees, beta := []int{0, 1, 2, 7}, 0.8
		s.filter(beta, degrees)
		for p, d := range degrees {
			want := make([]float64, w*panelWidth)
			for i := range want {
				x := 2*lambda(i/panelWidth)/beta - 1
				cheb := math.Cos(float64(d) * math.Acos(min(x, 1)))
				if x > 1 {
					cheb = math.Cosh(float64(d) * math.Acosh(x))
				}
				want[i] = cheb * start.panel(p)[i]
			}
			near(t, fmt.Sprint("degree ", d, ", limit ", limit), s.x.panel(p), want, 1e-9)
		}
	}
}

// G equals A^T A written out, in canonical order.
func TestGram(t *testing.T) {
	pool := newPool(t, 2)
	a := randomCSR(4, 120, 50, 4)
	g := gramOf(pool, a, a.Transpose())
	try.Do(t, g.Check())
	var want mat.Dense
	want.Mul(a.toDense().T(), a.toDense())
	near(t, "gram", g.toDense().RawMatrix().Data, want.RawMatrix().Data, 1e-13)
	near(t, "transpose", a.Transpose().toDense().RawMatrix().Data, mat.DenseCopyOf(a.toDense().T()).RawMatrix().Data, 0)
}
