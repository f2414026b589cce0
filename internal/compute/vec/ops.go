//go:build amd64 || arm64

package vec

import (
	"math"
	"unsafe"
)

// The functions below give an assembly kernel the signature of the table: they check the lengths and pass pointers.

func fillWith(f func(n int, dst *float32, value float32)) func(dst []float32, value float32) {
	return func(dst []float32, value float32) {
		if n := len(dst); n > 0 {
			f(n, &dst[0], value)
		}
	}
}

func two(f func(n int, y, x *float32)) func(y, x []float32) {
	return func(y, x []float32) {
		if n := len(y); n > 0 {
			x = x[:n]
			f(n, &y[0], &x[0])
		}
	}
}

func three(f func(n int, dst, a, b *float32)) func(dst, a, b []float32) {
	return func(dst, a, b []float32) {
		if n := len(dst); n > 0 {
			a, b = a[:n], b[:n]
			f(n, &dst[0], &a[0], &b[0])
		}
	}
}

func scaled(f func(n int, dst, x *float32, s float32)) func(dst, x []float32, s float32) {
	return func(dst, x []float32, s float32) {
		if n := len(dst); n > 0 {
			x = x[:n]
			f(n, &dst[0], &x[0], s)
		}
	}
}

func twice(f func(n int, dst, x, y *float32, a, b float32)) func(dst, x, y []float32, a, b float32) {
	return func(dst, x, y []float32, a, b float32) {
		if n := len(dst); n > 0 {
			x, y = x[:n], y[:n]
			f(n, &dst[0], &x[0], &y[0], a, b)
		}
	}
}

func threeScaled(f func(n int, dst, c, x *float32, a float32)) func(dst, c, x []float32, a float32) {
	return func(dst, c, x []float32, a float32) {
		if n := len(dst); n > 0 {
			c, x = c[:n], x[:n]
			f(n, &dst[0], &c[0], &x[0], a)
		}
	}
}

func total(f func(n int, x *float32) float64) func(x []float32) float64 {
	return func(x []float32) float64 {
		if len(x) == 0 {
			return 0
		}
		return f(len(x), &x[0])
	}
}

func none(f func(n int, x *float32) float64) func(x []float32) bool {
	return func(x []float32) bool { return len(x) == 0 || f(len(x), &x[0]) == 0 }
}

func total2(f func(n int, x, y *float32) float64) func(x, y []float32) float64 {
	return func(x, y []float32) float64 {
		n := len(x)
		if n == 0 {
			return 0
		}
		y = y[:n]
		return f(n, &x[0], &y[0])
	}
}

func fiveTotal(f func(n int, out, dz, u, c, dc *float32, s float32) float64) func(g, dz, u, c, dc []float32,
	s float32) float64 {
	return func(g, dz, u, c, dc []float32, s float32) float64 {
		n := len(g)
		if n == 0 {
			return 0
		}
		dz, u, c, dc = dz[:n], u[:n], c[:n], dc[:n]
		return f(n, &g[0], &dz[0], &u[0], &c[0], &dc[0], s)
	}
}

func rankWith(f func(n int, x, y, rx, ry *float32)) func(x, y []float32, rx, ry []int32) {
	return func(x, y []float32, rx, ry []int32) {
		if n := len(x); n > 0 {
			y, rx, ry = y[:n], rx[:n], ry[:n]
			f(n, &x[0], &y[0], (*float32)(unsafe.Pointer(&rx[0])), (*float32)(unsafe.Pointer(&ry[0])))
		}
	}
}

func adamWith(f func(n int, p, g, m, v, s *float32)) func(p, g, m, v []float32, s *AdamScalars[float32]) {
	return func(p, g, m, v []float32, s *AdamScalars[float32]) {
		if n := len(p); n > 0 {
			g, m, v = g[:n], m[:n], v[:n]
			f(n, &p[0], &g[0], &m[0], &v[0], &s.Clip)
		}
	}
}

func gruCellWith(f func(n int, gr, gz, gn, gc, hr, hz, hn, h, y, prev *float32)) func(gates, gh, h, y, prev []float32) {
	return func(gates, gh, h, y, prev []float32) {
		if n := len(h); n > 0 {
			gates, gh, y, prev = gates[:4*n], gh[:3*n], y[:n], prev[:n]
			f(n, &gates[0], &gates[n], &gates[2*n], &gates[3*n], &gh[0], &gh[n], &gh[2*n], &h[0], &y[0], &prev[0])
		}
	}
}

func gruCellGradWith(f func(n int, g0, g1, g2, g3, h, dy, dh *float32)) func(gates, h, dy, dh []float32) {
	return func(gates, h, dy, dh []float32) {
		if n := len(h); n > 0 {
			gates, dy, dh = gates[:4*n], dy[:n], dh[:n]
			f(n, &gates[0], &gates[n], &gates[2*n], &gates[3*n], &h[0], &dy[0], &dh[0])
		}
	}
}

func dotsWith(f func(n, count int, dst, x, rows *float32, ld int)) func(dst, x, rows []float32, ld int) {
	return func(dst, x, rows []float32, ld int) {
		n, count := len(x), len(dst)
		if n == 0 {
			clear(dst)
			return
		}
		if count > 0 {
			rows = rows[:(count-1)*ld+n]
			f(n, count, &dst[0], &x[0], &rows[0], ld)
		}
	}
}

func mixWith(f func(n, count int, dst, w, rows *float32, ld, step int)) func(dst, w, rows []float32, ld int) {
	return func(dst, w, rows []float32, ld int) {
		n, count := len(dst), len(w)
		if count == 0 {
			clear(dst)
			return
		}
		if n > 0 {
			rows = rows[:(count-1)*ld+n]
			f(n, count, &dst[0], &w[0], &rows[0], ld, 1)
		}
	}
}

func dropWith(f func(n int, y, x, words *float32, limit, factor float32)) func(y, x []float32, words []uint32,
	limit uint32, factor float32) {
	return func(y, x []float32, words []uint32, limit uint32, factor float32) {
		if n := len(y); n > 0 {
			x, words = x[:n], words[:n]
			f(n, &y[0], &x[0], (*float32)(unsafe.Pointer(&words[0])), math.Float32frombits(limit), factor)
		}
	}
}
