package gemm

import (
	"math/rand/v2"
	"testing"
)

// whole makes the operands of a product whole numbers, as large as sums of 2^31 allow: of A up to most.
func (p *product) whole(r *rand.Rand, most int) {
	fill := func(x []float32, most int) {
		for i, v := range x {
			if v == v {
				x[i] = float32(r.IntN(2*most+1) - most)
			}
		}
		if len(x) > 0 && x[0] == x[0] {
			x[0] = float32(-most)
		}
	}
	fill(p.A, most)
	fill(p.B, min(Int16Limit, (1<<31-1)/max(1, p.K*most)))
}

func int16Engine(t *testing.T, threads int) *Engine {
	t.Helper()
	e := newEngine(t, "", threads)
	if !e.HasInt16() {
		t.Skip("this processor has no AVX512-VNNI")
	}
	return e
}

func TestConformanceInt16(t *testing.T) {
	e, r := int16Engine(t, 3), rand.New(rand.NewPCG(9, 10))
	for i := range 150 {
		m, n, k := sizes(r)
		p := randomProduct(r, m, n, k)
		p.whole(r, []int{Int16Limit, 1000, 1}[i%3])
		p.Precision = Int16
		conform(t, e, p, same)
	}
}

// Products of a block of terms are exact up to the rounding of the sum to float32, also where float32 has lost terms.
func TestInt16IsExact(t *testing.T) {
	e, r := int16Engine(t, 2), rand.New(rand.NewPCG(11, 12))
	lost := 0
	for range 20 {
		p := randomProduct(r, 1+r.IntN(40), 1+r.IntN(80), 1+r.IntN(512))
		p.whole(r, 3000)
		p.Alpha, p.Beta, p.Bias, p.Precision = 1, 0, nil, Int16
		e.Gemm(&p.Args)
		for i := range p.M {
			for j := range p.N {
				var sum int64
				var rounded float32
				for l := range p.K {
					v := p.term(i, j, l, same)
					sum, rounded = sum+int64(v), rounded+float32(v)
				}
				want := float32(sum)
				if got := p.C[i*p.LDC+j]; got != want {
					t.Fatalf("%v: C[%d, %d] is %v, want %v", p, i, j, got, want)
				}
				if rounded != want {
					lost++
				}
			}
		}
	}
	if lost == 0 {
		t.Error("float32 has the same sums; the test wants larger ones")
	}
}
