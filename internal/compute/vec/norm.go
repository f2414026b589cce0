package vec

// The passes of layer norm over one row. Sums are accumulated in T.

func sum[T Float](x []T) float64 {
	var s [4]T
	for i, v := range x {
		s[i%4] += v
	}
	return float64(s[0] + s[1] + (s[2] + s[3]))
}

func sumDropped[T Float](y, a, x []T, words []uint32, limit uint32, factor T) float64 {
	a, x, words = a[:len(y)], x[:len(y)], words[:len(y)]
	var s [4]T
	for i, w := range words {
		v := a[i]
		if w >= limit {
			v += factor * x[i]
		}
		y[i] = v
		s[i%4] += v
	}
	return float64(s[0] + s[1] + (s[2] + s[3]))
}

func spread[T Float](x []T, centre T) float64 {
	var s [4]T
	for i, v := range x {
		s[i%4] += (v - centre) * (v - centre)
	}
	return float64(s[0] + s[1] + (s[2] + s[3]))
}

func norm[T Float](y, x, w, b []T, scale, shift T) {
	x, w, b = x[:len(y)], w[:len(y)], b[:len(y)]
	for i := range y {
		y[i] = (scale*x[i]+shift)*w[i] + b[i]
	}
}

func normSums[T Float](x, dy, w, dw, db []T, scale, shift T, sums []T) {
	dy, w, dw, db = dy[:len(x)], w[:len(x)], dw[:len(x)], db[:len(x)]
	var s [4]T
	for i, v := range x {
		hat, g := scale*v+shift, dy[i]*w[i]
		dw[i] += hat * dy[i]
		db[i] += dy[i]
		s[i%2] += g
		s[2+i%2] += g * hat
	}
	sums[0], sums[1] = s[0]+s[1], s[2]+s[3]
}

func normGrad[T Float](dx, x, dy, w []T, a, b, c T) {
	x, dy, w = x[:len(dx)], dy[:len(dx)], w[:len(dx)]
	for i := range dx {
		dx[i] = a*dy[i]*w[i] + (b*x[i] + c)
	}
}
