package gemm

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A product computed as its transpose has the same bits: with beta and bias, rests of panels and of blocks of k, in
// several passes over the packed operand.
func TestTransposedProductsHaveTheSameBits(t *testing.T) {
	kernel := ""
	if slices.Contains(ownKernels(), "avx512") { // the product with AMX packs both operands
		kernel = "avx512"
	}
	transposed, plain := newEngine(t, kernel, 3), newEngine(t, kernel, 2)
	if !transposed.f32.inPlace {
		t.Skip("this processor has no kernel for it")
	}
	kn := *plain.f32
	kn.inPlace = false
	plain.f32 = &kn
	r := rand.New(rand.NewPCG(11, 12))
	for i, s := range [][3]int{{1, 4, 4096}, {3, 57, 4100}, {33, 140, 4607}, {16, 100, 5000}, {70, 290, 4097},
		{128, 515, 40000}} {
		p := randomProduct(r, s[0], s[1], s[2])
		p.TransA, p.TransB, p.Alpha = false, true, 1
		p.LDA, p.LDB, p.LDC = s[2]+i, s[2]+2*i, s[1]+i
		p.A, p.B, p.C = matrix(r, s[0], s[2], p.LDA), matrix(r, s[1], s[2], p.LDB), matrix(r, s[0], s[1], p.LDC)
		p.Beta, p.Bias = [...]float32{0, 1, 0.5}[i%3], nil
		if i%2 == 0 {
			p.Bias = matrix(r, 1, s[1], s[1])
		}
		before := slices.Clone(p.C)
		transposed.job = job{a: p.Args, kn: transposed.f32}
		transposed.job.nkb, _ = transposed.f32.blocks(p.K)
		if !transposed.job.transposes() {
			t.Fatalf("%v is not computed as its transpose", s)
		}
		transposed.Gemm(&p.Args)
		got := slices.Clone(p.C)
		copy(p.C, before)
		plain.Gemm(&p.Args)
		if d := differ(got, p.C); d >= 0 {
			t.Errorf("%v beta %v bias %v: %v at %d, want %v", s, p.Beta, p.Bias != nil, got[d], d, p.C[d])
		}
	}
}
