//go:build amd64 || arm64

package tile64

// check panics where a slice is too short for n > 0 rows.
func check[B float32 | float64](n int, a []float64, stride int, b []B, c []float64) {
	_, _, _ = a[(n-1)*stride+Rows-1], b[n*Columns-1], c[Rows*Columns-1]
}

// parts covers the tile by four calls of a kernel of 4 rows and 8 columns.
func parts[B float32 | float64](f func(n int, a *float64, stride int, b *B, c *float64)) func(int, []float64, int, []B,
	[]float64) {
	return func(n int, a []float64, stride int, b []B, c []float64) {
		if n == 0 {
			return
		}
		check(n, a, stride, b, c)
		for i := 0; i < Rows; i += 4 {
			for j := 0; j < Columns; j += 8 {
				f(n, &a[i], stride, &b[j], &c[i*Columns+j])
			}
		}
	}
}
