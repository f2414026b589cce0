package gemm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// splitEngine multiplies in bf16 parts; it skips where the processor cannot.
func splitEngine(t *testing.T) *Engine {
	t.Helper()
	if splitting() == nil {
		t.Skip("this processor has no AMX")
	}
	return newEngine(t, splitAlways, 2)
}

// Three parts hold all 24 bits of a float32: a product with the identity gives every element back, from either side.
func TestPartsHoldTheWholeValue(t *testing.T) {
	e := splitEngine(t)
	r := rand.New(rand.NewPCG(31, 32))
	const n = 80
	x, one := make([]float32, n*n), make([]float32, n*n)
	for i := range x {
		x[i] = math.Float32frombits(r.Uint32()&0x807fffff | uint32(40+r.IntN(200))<<23) // exponents -87 to 112
		one[i] = 0
		if i%(n+1) == 0 {
			one[i] = 1
		}
	}
	c := make([]float32, n*n)
	for _, right := range []bool{true, false} {
		for _, trans := range []bool{false, true} {
			a := Args{M: n, N: n, K: n, Alpha: 1, A: x, LDA: n, B: one, LDB: n, C: c, LDC: n, TransA: trans}
			if !right {
				a.A, a.B, a.TransA, a.TransB = one, x, false, trans
			}
			e.Gemm(&a)
			for i := range n * n {
				want := x[i]
				if trans {
					want = x[i%n*n+i/n]
				}
				if c[i] != want {
					t.Fatalf("identity on the right %v, transposed %v: element %d is %v, want %v", right, trans, i,
						c[i], want)
				}
			}
		}
	}
}

// The sum of bf16 products is as close to the exact one as the sum of the float32 kernel, for operands of one size and
// of very different ones.
func TestSplitIsAsAccurateAsFloat32(t *testing.T) {
	split, plain := splitEngine(t), newEngine(t, available()[0].name, 2)
	r := rand.New(rand.NewPCG(33, 34))
	for _, k := range []int{64, 300, 1024, 5000} {
		for _, spread := range []int{1, 20} {
			value := func() float32 { return float32(math.Ldexp(r.NormFloat64(), r.IntN(spread))) }
			const m, n = 40, 40
			a := operands(m, n, k, false, true, Float32)
			for i := range a.A {
				a.A[i] = value()
			}
			for i := range a.B {
				a.B[i] = value()
			}
			ours := rmsError(split, a)
			theirs := rmsError(plain, a)
			t.Logf("K %d, exponents over %d: %.2e, float32 kernel %.2e", k, spread, ours, theirs)
			if ours > theirs {
				t.Errorf("K %d, exponents over %d: error %.2e of the sum of absolute products, float32 kernel %.2e", k,
					spread, ours, theirs)
			}
		}
	}
}

// rmsError is the root of the mean squared error of the product, relative to the sum of the absolute values of its
// terms.
func rmsError(e *Engine, a *Args) float64 {
	e.Gemm(a)
	return rms(a, func(i, j int) float32 { return a.C[i*a.LDC+j] })
}

// rms is rmsError of the elements of a product that somebody computed.
func rms(a *Args, got func(i, j int) float32) float64 {
	total := 0.0
	for i := range a.M {
		for j := range a.N {
			sum, size := 0.0, 0.0
			for l := range a.K {
				v := float64(a.A[i*a.LDA+l]) * float64(a.B[j*a.LDB+l])
				sum += v
				size += math.Abs(v)
			}
			d := (float64(got(i, j)) - sum) / size
			total += d * d
		}
	}
	return math.Sqrt(total / float64(a.M*a.N))
}
