package gemm

import "fmt"

// The checks panic when shapes and slices do not fit: a mistake of the program, never of its input.

func (a *Args) checkC() {
	if a.M < 0 || a.N < 0 || a.K < 0 {
		panic(fmt.Sprintf("gemm: negative size: M %d, N %d, K %d", a.M, a.N, a.K))
	}
	a.need("C", a.C, a.LDC, a.M, a.N, false)
	if a.Bias != nil && len(a.Bias) < a.N {
		panic(fmt.Sprintf("gemm: bias has %d elements, C [%d, %d] has %d columns", len(a.Bias), a.M, a.N, a.N))
	}
}

func (a *Args) checkA() { a.need("A", a.A, a.LDA, a.M, a.K, a.TransA) }

func (a *Args) checkB() {
	if a.N < 0 || a.K < 0 {
		panic(fmt.Sprintf("gemm: negative size: N %d, K %d", a.N, a.K))
	}
	a.need("B", a.B, a.LDB, a.K, a.N, a.TransB)
}

// need checks an operand [rows, cols], stored [cols, rows] where trans is set.
func (a *Args) need(name string, s []float32, ld, rows, cols int, trans bool) {
	if trans {
		rows, cols = cols, rows
	}
	if rows == 0 || cols == 0 {
		return
	}
	if ld < cols || len(s) < cols || (len(s)-cols)/ld < rows-1 {
		panic(fmt.Sprintf("gemm: %s stored [%d, %d] with leading dimension %d does not fit its slice of %d elements; "+
			"the product is C [%d, %d] = op(A) [%d, %d] * op(B) [%d, %d]",
			name, rows, cols, ld, len(s), a.M, a.N, a.M, a.K, a.K, a.N))
	}
}
