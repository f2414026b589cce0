package devicetest

import (
	"fmt"
	"math"

	"vsetrain/internal/compute/device"
)

// bf16 rounds to bfloat16, to nearest even.
func bf16(x float64) float64 {
	b := math.Float32bits(float32(x))
	return float64(math.Float32frombits((b + 0x7fff + b>>16&1) &^ 0xffff))
}

// referenceGemm is the definition of Gemm; round is applied to the operands.
func referenceGemm(a device.Gemm, x, y, c, bias []float64, round func(float64) float64) []float64 {
	at := func(m []float64, trans bool, off, ld, i, k int) float64 {
		if trans {
			i, k = k, i
		}
		return round(m[off+i*ld+k])
	}
	lda, ldb, ldc := a.LDA, a.LDB, a.LDC
	if lda == 0 {
		lda = pick(a.TransA, a.M, a.K)
	}
	if ldb == 0 {
		ldb = pick(a.TransB, a.K, a.N)
	}
	if ldc == 0 {
		ldc = a.N
	}
	out := append([]float64(nil), c...)
	for n := range max(1, a.Batch) {
		for i := range a.M {
			for j := range a.N {
				var s float64
				for k := range a.K {
					s += at(x, a.TransA, n*a.StrideA, lda, i, k) * at(y, a.TransB, n*a.StrideB, ldb, k, j)
				}
				o := &out[n*a.StrideC+i*ldc+j]
				s *= a.Alpha
				if a.Beta != 0 {
					s += a.Beta * *o
				}
				if bias != nil {
					s += bias[j]
				}
				*o = s
			}
		}
	}
	return out
}

func pick(b bool, yes, no int) int {
	if b {
		return yes
	}
	return no
}

func testGemm(h *harness) {
	shapes := [][3]int{{1, 1, 1}, {1, 5, 3}, {3, 1, 7}, {2, 3, 0}, {5, 7, 16}, {17, 33, 31}, {16, 64, 48},
		{65, 130, 77}, {128, 96, 257}}
	rounds := h.roundsProducts()
	for n, s := range shapes {
		for mode := range 16 {
			a := device.Gemm{M: s[0], N: s[1], K: s[2], TransA: mode&1 > 0, TransB: mode&2 > 0, Alpha: 1}
			if mode&4 > 0 {
				a.Alpha, a.Beta = -0.75, 0.5
			}
			if mode&8 > 0 {
				a.LDA = pick(a.TransA, a.M, a.K) + 3
				a.LDB = pick(a.TransB, a.K, a.N) + 1
				a.LDC = a.N + 2
				a.Exact = true
			}
			if n%3 == 1 {
				a.Batch = 3
			}
			h.gemm(a, (mode+n)%3 == 0, rounds && !a.Exact)
		}
	}
	// One operand shared by the whole batch.
	h.gemm(device.Gemm{M: 4, N: 6, K: 5, Batch: 4, TransB: true, Alpha: 2, StrideA: -1}, false, rounds)
	h.gemm(device.Gemm{M: 4, N: 6, K: 5, Batch: 4, Alpha: 1, StrideB: -1}, true, rounds)
	// The products of groups of columns that lie side by side.
	for _, m := range []int{1, 4, 50} {
		h.gemm(device.Gemm{M: m, N: 6, K: 5, Batch: 3, Alpha: 1, LDA: 17, LDC: 20, StrideA: besideStride,
			StrideC: besideStride, Exact: true}, false, false)
		h.gemm(device.Gemm{M: m, N: 36, K: 36, Batch: 3, Alpha: 1, LDA: 108, LDC: 108, StrideA: besideStride,
			StrideC: besideStride, Exact: true}, false, false)
	}
}

const besideStride = -2 // asks for operands side by side in the rows of one matrix

// gemm runs one product; gaps between rows and items hold NaN. A stride of -1 asks for a shared operand.
func (h *harness) gemm(a device.Gemm, bias, rounds bool) {
	what := fmt.Sprintf("Gemm %dx%dx%d transA=%v transB=%v ld=%d,%d,%d batch=%d bias=%v exact=%v alpha=%v beta=%v",
		a.M, a.N, a.K, a.TransA, a.TransB, a.LDA, a.LDB, a.LDC, a.Batch, bias, a.Exact, a.Alpha, a.Beta)
	items := max(1, a.Batch)
	operand := func(rows, cols, ld int, stride *int) []float64 {
		if ld == 0 {
			ld = cols
		}
		size, n := max(1, rows*ld), items
		switch {
		case *stride == -1:
			*stride, n = 0, 1
		case *stride == besideStride:
			*stride = cols
			return h.beside(rows, cols, ld, n)
		case items > 1:
			*stride = size + 5
		}
		x := make([]float64, (n-1)**stride+size)
		for i := range x {
			x[i] = math.NaN()
		}
		for b := range n {
			for r := range rows {
				copy(x[b**stride+r*ld:], h.normal(cols, 1))
			}
		}
		return x
	}
	ar, ac := a.M, a.K
	if a.TransA {
		ar, ac = ac, ar
	}
	br, bc := a.K, a.N
	if a.TransB {
		br, bc = bc, br
	}
	x, y := operand(ar, ac, a.LDA, &a.StrideA), operand(br, bc, a.LDB, &a.StrideB)
	c := operand(a.M, a.N, a.LDC, &a.StrideC)
	if a.Beta == 0 {
		for i := range c {
			c[i] = math.NaN() // must not be read
		}
	}
	var b []float64
	a.A, a.B, a.C = h.in(x), h.in(y), h.inout(c)
	if bias {
		b = h.normal(a.N, 1)
		a.Bias = h.in(b)
	}
	round, tol := func(x float64) float64 { return x }, h.tol.product
	switch {
	case rounds && h.rounds > 0:
		tol = h.tol.reduced
	case rounds:
		round = bf16
	}
	h.run(what, func() { device.Do(h.d, a) })
	var want []float64
	if !h.short {
		want = referenceGemm(a, x, y, c, b, round)
	}
	h.equal(what, a.C, want, tol)
	h.steady(what, func() { device.Do(h.d, a) })
	h.release()
}

// beside are rows of ld values of which the first n·cols are there.
func (h *harness) beside(rows, cols, ld, n int) []float64 {
	x := make([]float64, rows*ld)
	for r := range rows {
		copy(x[r*ld:], h.normal(n*cols, 1))
		for k := n * cols; k < ld; k++ {
			x[r*ld+k] = math.NaN()
		}
	}
	return x
}
