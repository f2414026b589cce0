package gemm

import "time"

// Measure returns the speed of the engine at one shape in GFLOP/s, with 2 M N K floating-point operations per product.
// It times the fastest product within about d, after one to warm up. It allocates the operands.
func Measure(e *Engine, m, n, k int, transA, transB bool, p Precision, d time.Duration) float64 {
	a := operands(m, n, k, transA, transB, p)
	return gflops(m, n, k, d, func() { e.Gemm(a) })
}

// operands makes a product of the shape.
func operands(m, n, k int, transA, transB bool, p Precision) *Args {
	a := &Args{TransA: transA, TransB: transB, M: m, N: n, K: k, Alpha: 1, Precision: p,
		A: noise(m*k, 1), B: noise(k*n, 2), C: make([]float32, m*n), LDA: k, LDB: n, LDC: n}
	if transA {
		a.LDA = m
	}
	if transB {
		a.LDB = k
	}
	return a
}

// gflops times f, the product of the shape, for about d and returns the best speed.
func gflops(m, n, k int, d time.Duration, f func()) float64 {
	f()
	best, start := time.Duration(1<<62), time.Now()
	for {
		t := time.Now()
		f()
		best = min(best, time.Since(t))
		if time.Since(start) >= d {
			return 2 * float64(m) * float64(n) * float64(k) / float64(max(best, 1))
		}
	}
}

// noise returns n values in [-0.5, 0.5) that look random (a multiplicative hash of the index).
func noise(n int, seed uint32) []float32 {
	x := make([]float32, n)
	for i := range x {
		h := (uint32(i) + seed*0x9e3779b9) * 0x85ebca6b
		h = (h ^ h>>15) * 0xc2b2ae35
		x[i] = float32(h>>8)/(1<<24) - 0.5
	}
	return x
}
