package gemm

import (
	"fmt"
	"testing"
)

// shape is one line of the speed report.
type shape struct {
	label          string
	m, n, k        int
	transA, transB bool
	packed         bool
}

// shapes are the products of training at batch 128 and the two of the speed table in all transpositions.
var shapes = []shape{
	{"large", 4608, 1024, 2048, false, false, false},
	{"large tB", 4608, 1024, 2048, false, true, false},
	{"large tA", 4608, 1024, 2048, true, false, false},
	{"large tAB", 4608, 1024, 2048, true, true, false},
	{"small", 128, 1024, 1024, false, false, false},
	{"small tB", 128, 1024, 1024, false, true, false},
	{"small tA", 128, 1024, 1024, true, false, false},
	{"small tAB", 128, 1024, 1024, true, true, false},
	{"fc forward", 128, 1024, 73728, false, true, false},
	{"fc weights", 1024, 73728, 128, true, false, false},
	{"gru input", 1970, 3072, 300, false, true, false},
	{"gru weights", 3072, 1024, 1970, true, false, false},
	{"gru dX", 1970, 300, 3072, false, false, false},
	{"recur 128", 128, 3072, 1024, false, true, true},
	{"recur 40", 40, 3072, 1024, false, true, true},
	{"recur 8", 8, 3072, 1024, false, true, true},
	{"recur 1", 1, 3072, 1024, false, true, true},
	{"recur back 128", 128, 1024, 3072, false, false, true},
	{"recur back 8", 8, 1024, 3072, false, false, true},
}

// BenchmarkGemm runs the shapes of training: go test -bench 'Gemm/fp32/large' ./internal/compute/gemm
func BenchmarkGemm(b *testing.B) {
	for p, name := range []string{Float32: "fp32", FixedPoint: "fixed", BF16: "bf16"} {
		for _, threads := range []int{1, 2} {
			for _, s := range shapes {
				b.Run(fmt.Sprintf("%s/%s/threads%d", name, s.label, threads), func(b *testing.B) {
					e := newEngine(b, "", threads)
					run := s.product(e, Precision(p))
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
func (s shape) product(e *Engine, p Precision) func() {
	a := operands(s.m, s.n, s.k, s.transA, s.transB, p)
	if !s.packed {
		return func() { e.Gemm(a) }
	}
	packed := new(Packed)
	e.PackB(packed, s.transB, s.k, s.n, a.B, a.LDB, p)
	return func() { e.GemmPacked(a, packed) }
}
