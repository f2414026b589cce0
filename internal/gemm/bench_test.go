package gemm

import (
	"fmt"
	"testing"
)

// BenchmarkGemm runs the shapes of training: go test -bench 'Gemm/fp32/large' ./internal/gemm
func BenchmarkGemm(b *testing.B) {
	for _, precision := range []string{"fp32", "bf16"} {
		for _, threads := range []int{1, 2} {
			for _, s := range shapes {
				b.Run(fmt.Sprintf("%s/%s/threads%d", precision, s.label, threads), func(b *testing.B) {
					e := newEngine(b, "", threads)
					run := s.product(e, precision == "bf16")
					run()
					b.ReportAllocs()
					for b.Loop() {
						run()
					}
					flops := 2 * float64(s.m) * float64(s.n) * float64(s.k) * float64(b.N)
					b.ReportMetric(flops/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
				})
			}
		}
	}
}

// product prepares the operands of a shape and returns the product.
func (s shape) product(e *Engine, bf16 bool) func() {
	a := operands(s.m, s.n, s.k, s.transA, s.transB, bf16)
	if !s.packed {
		return func() { e.Gemm(a) }
	}
	p := new(Packed)
	e.PackB(p, s.transB, s.k, s.n, a.B, a.LDB, bf16)
	return func() { e.GemmPacked(a, p) }
}
