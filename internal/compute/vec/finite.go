package vec

import "math"

// NotFinite returns the index of the first NaN or infinity of x, -1 when there is none.
func NotFinite[T Float](x []T) int {
	// v*0 is 0 for a finite v and NaN otherwise; four sums keep the adder busy.
	var a, b, c, d T
	i := 0
	for ; i+4 <= len(x); i += 4 {
		v := x[i : i+4 : i+4]
		a += v[0] * 0
		b += v[1] * 0
		c += v[2] * 0
		d += v[3] * 0
	}
	for ; i < len(x); i++ {
		a += x[i] * 0
	}
	if a+b+c+d == 0 {
		return -1
	}
	for i, v := range x {
		if w := float64(v); math.IsNaN(w) || math.IsInf(w, 0) {
			return i
		}
	}
	return -1
}
