package cuda_test

import (
	"math"
	"testing"
)

// approx is what float32 arithmetic gives in place of a value: v, off by at most e. Its methods are running error
// analysis (N. J. Higham, Accuracy and Stability of Numerical Algorithms, 3.3), in float64: they carry the errors of
// their operands through and add the rounding of their own result.
type approx struct{ v, e float64 }

// unit is the greatest relative error of a rounding to float32.
const unit = 0x1p-24

// inexact is the number of units by which sigmoid, tanh and exponential are off: 2.5 units in the last place, as
// TestFunctionsInUlp of internal/compute/vec allows.
const inexact = 5

func (a approx) rounded(units float64) approx {
	return approx{a.v, a.e + units*unit*(math.Abs(a.v)+a.e)}
}

func (a approx) plus(b approx) approx { return approx{a.v + b.v, a.e + b.e}.rounded(1) }

func (a approx) times(b approx) approx { return a.product(b).rounded(1) }

// product is a·b, not rounded.
func (a approx) product(b approx) approx {
	return approx{a.v * b.v, math.Abs(a.v)*b.e + math.Abs(b.v)*a.e + a.e*b.e}
}

// through is a monotone function, off by units.
func (a approx) through(f func(float64) float64, units float64) approx {
	v := f(a.v)
	return approx{v, max(math.Abs(f(a.v+a.e)-v), math.Abs(f(a.v-a.e)-v))}.rounded(units)
}

// operand is a rounded to bfloat16.
func (a approx) operand() approx { return a.as(bfloat16) }

// as is a rounded by f. Where all that a may be rounds to the same value, it has no error any more; near a tie it is
// one of two neighbours, with bfloat16 2^-8 of its size apart.
func (a approx) as(f func(float64) float64) approx {
	lo, hi := f(a.v-a.e), f(a.v+a.e)
	return approx{(lo + hi) / 2, (hi - lo) / 2}
}

// bfloat16 rounds to 8 bits, to nearest even.
func bfloat16(x float64) float64 {
	m, e := math.Frexp(x)
	return math.Ldexp(math.RoundToEven(math.Ldexp(m, 8)), e-8)
}

// tf32 rounds to 11 bits, and where two neighbours are as near, to the one of the greater magnitude (cvt.rna.tf32.f32).
func tf32(x float64) float64 {
	m, e := math.Frexp(x)
	return math.Ldexp(math.Round(math.Ldexp(m, 11)), e-11)
}

// unrounded is for products whose operands are not rounded.
func unrounded(x float64) float64 { return x }

// sum is Σ a·b of n products in float32.
type sum struct {
	approx
	size float64
	n    int
}

func (s *sum) add(a, b approx) {
	p := a.product(b)
	s.v, s.e, s.size, s.n = s.v+p.v, s.e+p.e, s.size+math.Abs(p.v)+p.e, s.n+1
}

// total is the sum in any order: each product is rounded n times at most.
func (s *sum) total() approx { return s.after(s.n) }

// after is the sum in an order in which each product is rounded that many times at most.
func (s *sum) after(roundings int) approx {
	n := float64(roundings) * unit
	return approx{s.v, s.e + n/(1-n)*s.size}
}

// totals are the totals of all sums.
func totals(sums []sum) []approx {
	all := make([]approx, len(sums))
	for i := range sums {
		all[i] = sums[i].total()
	}
	return all
}

// matrix is rows of approx, a transposed one its columns.
type matrix func(i, j int) approx

func rowsOf(x []approx, width int) matrix { return func(i, j int) approx { return x[i*width+j] } }

func (a matrix) transposed() matrix { return func(i, j int) approx { return a(j, i) } }

// times is the product [m, n] over k.
func (a matrix) times(b matrix, m, n, k int) []approx {
	all := make([]approx, m*n)
	for i := range all {
		var s sum
		for q := range k {
			s.add(a(i/n, q), b(q, i%n))
		}
		all[i] = s.total()
	}
	return all
}

// columns are the sums of m rows of n.
func (a matrix) columns(m, n int) []approx {
	return matrix(func(int, int) approx { return approx{v: 1} }).times(a, 1, n, m)
}

// sigmoid is 1/(1 + e^-x).
func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// less is 1 - a.
func less(a approx) approx { return approx{v: 1}.plus(approx{-a.v, a.e}) }

// cell is what the step of a GRU keeps of a unit: the gates r, z and n, and c = W_hn h + b_hn.
type cell [4]approx

// cellOf is the value of a unit in a row of gates, [rows, 4h].
func cellOf(gates []float64, row, unit, h int) (c cell) {
	for i := range c {
		c[i].v = gates[(row*4+i)*h+unit]
	}
	return c
}

// write puts c where cellOf finds it.
func (c cell) write(gates []approx, row, unit, h int) {
	for i, v := range c {
		gates[(row*4+i)*h+unit] = v
	}
}

// of is the cell of the sums of inputs that the gates have; n follows from r and c as the device gave them.
func (c cell) of(r, z, n, hidden approx) cell {
	return cell{r.through(sigmoid, inexact), z.through(sigmoid, inexact),
		n.plus(c[0].times(c[3])).through(math.Tanh, inexact), hidden}
}

// after is the state after the step.
func (c cell) after(before approx) approx {
	return less(c[1]).times(c[2]).plus(c[1].times(before))
}

// slopes are the gradients [n, r, z, c] of the inputs, from the gradient of the state after the step.
func (c cell) slopes(d, before approx) cell {
	r, z, m := c[0], c[1], c[2]
	dn := d.times(less(z)).times(less(m.times(m)))
	return cell{dn, dn.times(c[3]).times(r.times(less(r))),
		d.times(before.plus(approx{-m.v, m.e})).times(z.times(less(z))), dn.times(r)}
}

// ofHidden are the columns of slopes that belong to the products of W_hh, r, z and c; ofInput those that belong to
// W_ih, r, z and n.
func (a matrix) ofHidden(h int) matrix { return func(row, j int) approx { return a(row, h+j) } }
func (a matrix) ofInput(h int) matrix  { return func(row, j int) approx { return a(row, (h+j)%(3*h)) } }

// norm is the length of a row.
func norm(row []approx) approx {
	var squares sum
	for _, v := range row {
		squares.add(v, v)
	}
	return squares.total().through(math.Sqrt, 1)
}

// inverse is what divides by a norm, or by a sum of weights: 1/(n + 1e-8).
func inverse(n approx) approx {
	return n.plus(approx{v: 1e-8}).through(func(v float64) float64 { return 1 / v }, 1)
}

// unitContexts are the contexts of length 1 of b images with words, image after image, from the weights [words, b·r]
// and regions [b·r, e], and their norms before.
func unitContexts(alpha, regions matrix, b, words, r, e int) (u, norms []approx) {
	u, norms = make([]approx, b*words*e), make([]approx, b*words)
	for p := range norms {
		row, image, word := u[p*e:][:e], p/words, p%words
		for k := range row {
			var context sum
			for j := range r {
				context.add(alpha(word, image*r+j), regions(image*r+j, k))
			}
			row[k] = context.total()
		}
		norms[p] = norm(row)
		for k := range row {
			row[k] = row[k].times(inverse(norms[p]))
		}
	}
	return u, norms
}

// exactly are values without an error.
func exactly(x []float64) []approx {
	all := make([]approx, len(x))
	for i, v := range x {
		all[i].v = v
	}
	return all
}

func operands(x []approx) []approx { return as(x, bfloat16) }

func as(x []approx, f func(float64) float64) []approx {
	all := make([]approx, len(x))
	for i, v := range x {
		all[i] = v.as(f)
	}
	return all
}

// plusRow adds a row to each of x.
func plusRow(x, row []approx) {
	for i := range x {
		x[i] = x[i].plus(row[i%len(row)])
	}
}

// within fails where a result is not what it may be, or where the errors are so large that anything is.
func within(t *testing.T, what string, got []float64, want []approx) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	size, wide, worst, at, wrong := 0.0, 0.0, 0.0, 0, 0
	for i, w := range want {
		size, wide = max(size, math.Abs(w.v)), max(wide, w.e)
		if d := math.Abs(got[i] - w.v); !(d <= w.e) {
			if wrong++; !(d/w.e <= worst) {
				worst, at = d/w.e, i
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%s: %d of %d values are wrong; %d is %.9g, want %.9g, off by %.3g times the bound", what, wrong,
			len(got), at, got[at], want[at].v, worst)
	}
	if !(wide < size) {
		t.Errorf("%s: the bound %.3g says nothing of values of %.3g", what, wide, size)
	}
}
