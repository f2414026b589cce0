package view

// thin returns at most 2n points of a curve that look the same when drawn: of each of n pieces of equal length the
// lowest and the highest value in their order. First and last point stay.
func thin(x, y []float64, n int) (tx, ty []float64) {
	if len(x) <= 2*n {
		return x, y
	}
	for k := range n {
		lo, hi := k*len(x)/n, (k+1)*len(x)/n
		a, b := lo, lo
		for i := lo; i < hi; i++ {
			if y[i] < y[a] {
				a = i
			}
			if y[i] > y[b] {
				b = i
			}
		}
		if k == 0 {
			a = 0
		}
		if k == n-1 {
			b = len(x) - 1
		}
		if a > b {
			a, b = b, a
		}
		tx, ty = append(tx, x[a]), append(ty, y[a])
		if a != b {
			tx, ty = append(tx, x[b]), append(ty, y[b])
		}
	}
	return tx, ty
}

// smooth returns the mean of up to n values around each.
func smooth(y []float64, n int) []float64 {
	sums := make([]float64, len(y)+1)
	for i, v := range y {
		sums[i+1] = sums[i] + v
	}
	out := make([]float64, len(y))
	for i := range y {
		lo, hi := max(0, i-n/2), min(len(y), i+n/2+1)
		out[i] = (sums[hi] - sums[lo]) / float64(hi-lo)
	}
	return out
}
