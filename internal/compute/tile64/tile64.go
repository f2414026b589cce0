// Package tile64 is the inner loop of products in float64, a tile of the result at a time:
//
//	c[i, j] += Σ_t a[t, i] b[t, j]    i < Rows, j < Columns, t < n in ascending order
//
// Both operands are panels: row t of a lies at a[t·stride], row t of b at b[t·Columns]. b is float64, or float32 that
// is widened. It is written in assembly for amd64 with AVX-512 or AVX2 and FMA, and for arm64; elsewhere it is plain
// Go. If all products are exact, as for float32 values, every kernel gives the same bits.
//
// Why not gonum: it has no product of float64 with float32, and its float64 product takes a matrix, not packed panels.
package tile64

// The size of a tile: its sums fit in half the registers of AVX-512; AVX2 and NEON take it in four parts.
const (
	Rows    = 8
	Columns = 16
)

// Kernel is one implementation. c is [Rows, Columns], and a has Rows values in each of its n rows.
type Kernel struct {
	Name   string // "avx512", "avx2", "neon", "generic"
	Double func(n int, a []float64, stride int, b, c []float64)
	Single func(n int, a []float64, stride int, b []float32, c []float64)
}

// Best returns the fastest kernel of this processor.
func Best() Kernel { return Available()[0] }

// generic is the portable kernel and the reference of the others: 2 x 4 sums at a time, so that they stay in registers.
func generic[B float32 | float64](n int, a []float64, stride int, b []B, c []float64) {
	for i := 0; i < Rows; i += 2 {
		for j := 0; j < Columns; j += 4 {
			c0, c1 := (*[4]float64)(c[i*Columns+j:]), (*[4]float64)(c[(i+1)*Columns+j:])
			s00, s01, s02, s03 := c0[0], c0[1], c0[2], c0[3]
			s10, s11, s12, s13 := c1[0], c1[1], c1[2], c1[3]
			for t := range n {
				x, y := a[t*stride+i], a[t*stride+i+1]
				row := (*[4]B)(b[t*Columns+j:])
				r0, r1, r2, r3 := float64(row[0]), float64(row[1]), float64(row[2]), float64(row[3])
				s00 += x * r0
				s01 += x * r1
				s02 += x * r2
				s03 += x * r3
				s10 += y * r0
				s11 += y * r1
				s12 += y * r2
				s13 += y * r3
			}
			*c0 = [4]float64{s00, s01, s02, s03}
			*c1 = [4]float64{s10, s11, s12, s13}
		}
	}
}
