package vec

import "math"

// The elementwise kernels and reductions in plain Go. Reslicing to the length of the first slice checks the others
// once and lets the compiler drop the checks inside the loops.

func fill[T Float](dst []T, value T) {
	for i := range dst {
		dst[i] = value
	}
}

func add[T Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func mul[T Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func scale[T Float](dst, x []T, s T) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] = s * x[i]
	}
}

func sum2[T Float](dst, x, y []T, a, b T) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i := range dst {
		dst[i] = a*x[i] + b*y[i]
	}
}

func axpy[T Float](dst, x []T, a T) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += a * x[i]
	}
}

func madd[T Float](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] += a[i] * b[i]
	}
}

func hinge[T Float](dst, c, x []T, a T) {
	c, x = c[:len(dst)], x[:len(dst)]
	for i := range dst {
		if d := c[i] - x[i]; !(d <= 0) { // NaN counts
			dst[i] += a * d
		}
	}
}

func rank[T Float](x, y []T, rx, ry []int32) {
	y, rx, ry = y[:len(x)], rx[:len(x)], ry[:len(x)]
	for i := range x {
		var after int32
		if y[i] > x[i] {
			after = 1
		}
		rx[i] += after
		ry[i] += 1 - after
	}
}

func pickMul[T Float](dst, table []T, index []int32, x []T) {
	index, x = index[:len(dst)], x[:len(dst)]
	for i, j := range index {
		dst[i] = table[min(uint(uint32(j)), uint(len(table)-1))] * x[i]
	}
}

func pickMAdd[T Float](dst, table []T, index []int32, x []T) {
	index, x = index[:len(dst)], x[:len(dst)]
	for i, j := range index {
		dst[i] += table[min(uint(uint32(j)), uint(len(table)-1))] * x[i]
	}
}

func sumsq[T Float](x []T) float64 {
	var s0, s1, s2, s3 float64
	for ; len(x) >= 4; x = x[4:] {
		s0 += float64(x[0]) * float64(x[0])
		s1 += float64(x[1]) * float64(x[1])
		s2 += float64(x[2]) * float64(x[2])
		s3 += float64(x[3]) * float64(x[3])
	}
	for _, v := range x {
		s0 += float64(v) * float64(v)
	}
	return s0 + s1 + (s2 + s3)
}

func dot[T Float](x, y []T) float64 {
	y = y[:len(x)]
	var s0, s1, s2, s3 float64
	for ; len(x) >= 4; x, y = x[4:], y[4:] {
		s0 += float64(x[0]) * float64(y[0])
		s1 += float64(x[1]) * float64(y[1])
		s2 += float64(x[2]) * float64(y[2])
		s3 += float64(x[3]) * float64(y[3])
	}
	for i := range x {
		s0 += float64(x[i]) * float64(y[i])
	}
	return s0 + s1 + (s2 + s3)
}

func order[T Float](c, x []T) float64 {
	x = x[:len(c)]
	var s float64
	for i := range c {
		if d := float64(c[i] - x[i]); !(d <= 0) { // NaN counts
			s += d * d
		}
	}
	return s
}

func allZero[T Float](x []T) bool {
	for _, v := range x {
		if v != 0 { // NaN counts
			return false
		}
	}
	return true
}

func squareDiff[T Float](z, u, c []T, s T) {
	u, c = u[:len(z)], c[:len(z)]
	for i := range z {
		d := s*u[i] - c[i]
		z[i] = d * d
	}
}

func squareDiffGrad[T Float](g, dz, u, c, dc []T, s T) float64 {
	dz, u, c, dc = dz[:len(g)], u[:len(g)], c[:len(g)], dc[:len(g)]
	var sum [4]T
	for i := range g {
		v := dz[i] * (s*u[i] - c[i])
		g[i] = v
		dc[i] -= 2 * v
		sum[i%4] += u[i] * v
	}
	return float64(sum[0] + sum[1] + (sum[2] + sum[3]))
}

func squares[T Float](x []T) float64 {
	var sum [4]T
	for i, v := range x {
		sum[i%4] += v * v
	}
	return float64(sum[0] + sum[1] + (sum[2] + sum[3]))
}

func relu[T Float](y, x []T) {
	x = x[:len(y)]
	for i := range y {
		y[i] = max(0, x[i])
	}
}

func reluSlope[T Float](d, x, dy []T) {
	x, dy = x[:len(d)], dy[:len(d)]
	for i := range d {
		g := dy[i]
		if !(x[i] > 0) {
			g = 0
		}
		d[i] = g
	}
}

func abs[T Float](y, x []T) {
	x = x[:len(y)]
	for i := range y {
		v := x[i]
		if v < 0 {
			v = -v
		}
		y[i] = v + 0 // -0 becomes 0
	}
}

func absSlope[T Float](d, x, dy []T) {
	x, dy = x[:len(d)], dy[:len(d)]
	for i := range d {
		switch {
		case x[i] > 0:
			d[i] = dy[i]
		case x[i] < 0:
			d[i] = -dy[i]
		default:
			d[i] = 0
		}
	}
}

func tanhSlope[T Float](d, y, dy []T) {
	y, dy = y[:len(d)], dy[:len(d)]
	for i := range d {
		d[i] = dy[i] * (1 - y[i]*y[i])
	}
}

func sigmoidSlope[T Float](d, y, dy []T) {
	y, dy = y[:len(d)], dy[:len(d)]
	for i := range d {
		d[i] = dy[i] * (y[i] * (1 - y[i]))
	}
}

func dots[T Float](dst, x, rows []T, ld int) {
	for j := range dst {
		row := rows[j*ld:][:len(x)]
		var s T
		for k, v := range x {
			s += v * row[k]
		}
		dst[j] = s
	}
}

func mix[T Float](dst, w, rows []T, ld int) {
	mixRows(dst, len(dst), w, 0, 1, rows, ld, 1, len(dst), len(w))
}

func mixRows[T Float](dst []T, out int, w []T, row, step int, rows []T, ld int, m, n, count int) {
	for r := range m {
		y := dst[r*out:][:n]
		clear(y)
		for j := range count {
			a, x := w[r*row+j*step], rows[j*ld:][:n]
			for k := range y {
				y[k] += a * x[k]
			}
		}
	}
}

func drop[T Float](y, x []T, words []uint32, limit uint32, factor T) {
	x, words = x[:len(y)], words[:len(y)]
	for i, w := range words {
		if w < limit {
			y[i] = 0
		} else {
			y[i] = x[i] * factor
		}
	}
}

// adam is Adam and AdamW (Kingma and Ba 2015; Loshchilov and Hutter 2019) with the constants of AdamScalars.
func adam[T Float](p, g, m, v []T, s *AdamScalars[T]) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	c := *s
	for i := range p {
		gi := c.Clip * g[i]
		mi := c.B1*m[i] + c.C1*gi
		vi := c.B2*v[i] + c.C2*(gi*gi)
		m[i], v[i] = mi, vi
		p[i] = c.Decay*p[i] - c.Step*mi/(T(math.Sqrt(float64(vi)))*c.Inv+c.Eps)
	}
}
