//go:build amd64 || arm64

package vec

import (
	"math"
	"unsafe"
)

// As in ops.go, for the kernels of softmax, layer norm and GELU.

func fetchWith(f func(n int, x *float32)) func(x []float32) {
	return func(x []float32) {
		if len(x) > 0 {
			f(len(x), &x[0])
		}
	}
}

func pickWith(f func(n int, dst, table, index, x *float32, last float32)) func(dst, table []float32, index []int32,
	x []float32) {
	return func(dst, table []float32, index []int32, x []float32) {
		if n := len(dst); n > 0 {
			index, x = index[:n], x[:n]
			f(n, &dst[0], &table[0], (*float32)(unsafe.Pointer(&index[0])), &x[0],
				math.Float32frombits(uint32(len(table)-1)))
		}
	}
}

func four(f func(n int, d, y, x, dy *float32)) func(d, y, x, dy []float32) {
	return func(d, y, x, dy []float32) {
		if n := len(d); n > 0 {
			y, x, dy = y[:n], x[:n], dy[:n]
			f(n, &d[0], &y[0], &x[0], &dy[0])
		}
	}
}

func rowsWith(f func(n, count int, p *float32, s float32)) func(p []float32, n int, s float32) {
	return func(p []float32, n int, s float32) {
		if n > 0 && len(p) >= n {
			f(n, len(p)/n, &p[0], s)
		}
	}
}

func rowPairsWith(f func(n, count int, dp, p *float32, s float32)) func(dp, p []float32, n int, s float32) {
	return func(dp, p []float32, n int, s float32) {
		if n > 0 && len(dp) >= n {
			p = p[:len(dp)]
			f(n, len(dp)/n, &dp[0], &p[0], s)
		}
	}
}

func totalFrom(f func(n int, x *float32, centre float32) float64) func(x []float32, centre float32) float64 {
	return func(x []float32, centre float32) float64 {
		if len(x) == 0 {
			return 0
		}
		return f(len(x), &x[0], centre)
	}
}

func sumDroppedWith(f func(n int, y, a, x, words *float32, limit, factor float32) float64) func(y, a, x []float32,
	words []uint32, limit uint32, factor float32) float64 {
	return func(y, a, x []float32, words []uint32, limit uint32, factor float32) float64 {
		n := len(y)
		if n == 0 {
			return 0
		}
		a, x, words = a[:n], x[:n], words[:n]
		return f(n, &y[0], &a[0], &x[0], (*float32)(unsafe.Pointer(&words[0])), math.Float32frombits(limit), factor)
	}
}

func normWith(f func(n int, y, x, w, b *float32, scale, shift float32)) func(y, x, w, b []float32, scale,
	shift float32) {
	return func(y, x, w, b []float32, scale, shift float32) {
		if n := len(y); n > 0 {
			x, w, b = x[:n], w[:n], b[:n]
			f(n, &y[0], &x[0], &w[0], &b[0], scale, shift)
		}
	}
}

func normSumsWith(f func(n int, x, dy, w, dw, db, sums *float32, scale, shift float32)) func(x, dy, w, dw, db []float32,
	scale, shift float32, sums []float32) {
	return func(x, dy, w, dw, db []float32, scale, shift float32, sums []float32) {
		n := len(x)
		if n == 0 {
			clear(sums[:2])
			return
		}
		dy, w, dw, db, sums = dy[:n], w[:n], dw[:n], db[:n], sums[:2]
		f(n, &x[0], &dy[0], &w[0], &dw[0], &db[0], &sums[0], scale, shift)
	}
}

func normGradWith(f func(n int, dx, x, dy, w *float32, a, b, c float32)) func(dx, x, dy, w []float32, a, b, c float32) {
	return func(dx, x, dy, w []float32, a, b, c float32) {
		if n := len(dx); n > 0 {
			x, dy, w = x[:n], dy[:n], w[:n]
			f(n, &dx[0], &x[0], &dy[0], &w[0], a, b, c)
		}
	}
}

// mixRowsWith takes four rows at a time where their columns fill the blocks of four.
func mixRowsWith(one func(n, count int, dst, w, rows *float32, ld, step int),
	four func(n, count int, dst, w, rows *float32, ld, step, row, out int),
	block int) func(dst []float32, out int, w []float32, row, step int, rows []float32, ld int, m, n, count int) {
	return func(dst []float32, out int, w []float32, row, step int, rows []float32, ld int, m, n, count int) {
		if m <= 0 || n <= 0 || count <= 0 {
			for r := range m {
				clear(dst[r*out:][:n])
			}
			return
		}
		dst, w, rows = dst[:(m-1)*out+n], w[:(m-1)*row+(count-1)*step+1], rows[:(count-1)*ld+n]
		r := 0
		for ; n%block == 0 && r+4 <= m; r += 4 {
			four(n, count, &dst[r*out], &w[r*row], &rows[0], ld, step, row, out)
		}
		for ; r < m; r++ {
			one(n, count, &dst[r*out], &w[r*row], &rows[0], ld, step)
		}
	}
}
