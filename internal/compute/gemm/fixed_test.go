package gemm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// fixedEngine multiplies in fixed point; it skips where the processor cannot.
func fixedEngine(t *testing.T) *Engine {
	t.Helper()
	if fixing() == nil {
		t.Skip("this processor has no AMX for integers")
	}
	return newEngine(t, fixedPoint, 2)
}

// Even operands lose in fixed point about what a loop of float32 loses, sum by sum, and with many terms less: random
// ones, squares of differences with weights, and features of which most are zero.
func TestFixedPointIsAsAccurateAsFloat32(t *testing.T) {
	e := fixedEngine(t)
	r := rand.New(rand.NewPCG(35, 36))
	normal := func() float64 { return r.NormFloat64() }
	uniform := func() float64 { return 2*r.Float64() - 1 }
	square := func() float64 { return math.Pow(r.NormFloat64()-r.NormFloat64(), 2) }
	rare := func() float64 { return math.Pow(max(0, r.NormFloat64()-1), 2) }
	for _, c := range []struct {
		name      string
		a, b      func() float64
		few, many float64 // most of the error of the loop, with few terms and with many
	}{{"normal", normal, normal, 1.5, 0.8}, {"squares of differences, weights", square, uniform, 1.5, 0.8},
		{"features, weights", rare, uniform, 3, 1.5}} {
		for _, k := range []int{192, 256, 1024, 2048} {
			const m, n = 64, 64
			a := operands(m, n, k, false, true, FixedPoint)
			for i := range a.A {
				a.A[i] = float32(c.a())
			}
			for i := range a.B {
				a.B[i] = float32(c.b())
			}
			limit := c.few
			if k >= 1024 {
				limit = c.many
			}
			ours, loop := rmsError(e, a), loopError(a)
			t.Logf("%s, K %d: %.2e, a loop %.2e", c.name, k, ours, loop)
			if ours > limit*loop {
				t.Errorf("%s, K %d: error %.2e of the sum of absolute products, a loop of float32 %.2e", c.name, k,
					ours, loop)
			}
		}
	}
}

// Whatever the operands, an element is exact to the largest values of its row and column, block by block of terms.
func TestFixedPointIsExactToTheLargest(t *testing.T) {
	e := fixedEngine(t)
	r := rand.New(rand.NewPCG(37, 38))
	for _, k := range []int{64, 200, 1024} {
		const m, n = 40, 70
		a := operands(m, n, k, false, true, FixedPoint)
		for _, x := range [][]float32{a.A, a.B} {
			for i := range x {
				x[i] = float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
			}
		}
		e.Gemm(a)
		blocks, size := e.fixed.blocks(k)
		for i := range m {
			for j := range n {
				sum, bound := 0.0, 0.0
				for b := range blocks {
					largestA, largestB := 0.0, 0.0
					for l := b * size; l < min(k, (b+1)*size); l++ {
						x, y := float64(a.A[i*k+l]), float64(a.B[j*k+l])
						sum += x * y
						largestA, largestB = max(largestA, math.Abs(x)), max(largestB, math.Abs(y))
					}
					bound += 6 * math.Sqrt(float64(size)) * largestA * largestB / (1 << 24)
				}
				if d := math.Abs(float64(a.C[i*n+j]) - sum); d > bound {
					t.Fatalf("K %d: element %d, %d is off by %g, expected at most %g", k, i, j, d, bound)
				}
			}
		}
	}
}

// Rows of zeros give zeros, tiny ones no NaN, and a value that is not a number reaches its row and no other.
func TestFixedPointOfUnusualValues(t *testing.T) {
	e := fixedEngine(t)
	const m, n, k = 40, 40, 256
	a := operands(m, n, k, false, true, FixedPoint)
	clear(a.A[3*k : 4*k])
	clear(a.B[5*k : 6*k])
	for l := range k {
		a.A[7*k+l] = 1e-38
	}
	inf := float32(math.Inf(1))
	a.A[9*k+17], a.A[11*k+200], a.B[13*k] = nan(), inf, -inf
	e.Gemm(a)
	for i := range m {
		for j := range n {
			v := float64(a.C[i*n+j])
			finite := !math.IsNaN(v) && !math.IsInf(v, 0)
			switch {
			case i == 9 || i == 11 || j == 13:
				if finite {
					t.Fatalf("element %d, %d is %v though its row or column has a value that is not finite", i, j, v)
				}
			case !finite || i != 7 && (i == 3 || j == 5) != (v == 0) || i == 7 && math.Abs(v) > 1e-35:
				t.Fatalf("element %d, %d is %v", i, j, v)
			}
		}
	}
}

// loopError is rmsError of the sums of a loop in float32.
func loopError(a *Args) float64 {
	return rms(a, func(i, j int) float32 {
		sum := float32(0)
		for l := range a.K {
			sum += float32(a.A[i*a.LDA+l] * a.B[j*a.LDB+l])
		}
		return sum
	})
}
