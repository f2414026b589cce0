package vec

import "math"

// Softmax of the rows of p [count, n], in place, and its gradient, of which dp is replaced:
//
//	p_j ← e^(s·(p_j - max p)) / Σ_k e^(s·(p_k - max p))    dp_j ← s·p_j·(dp_j - Σ_k p_k·dp_k)
func softmax[T Float](exp func(T) T) func(p []T, n int, s T) {
	return func(p []T, n int, s T) {
		for ; len(p) >= n && n > 0; p = p[n:] {
			row := p[:n]
			top := T(math.Inf(-1))
			for _, v := range row {
				top = max(top, v)
			}
			var sum T
			for j, v := range row {
				row[j] = exp((v - top) * s)
				sum += row[j]
			}
			for j := range row {
				row[j] /= sum
			}
		}
	}
}

func softmaxGrad[T Float](dp, p []T, n int, s T) {
	for ; len(dp) >= n && n > 0; dp, p = dp[n:], p[n:] {
		row, w := dp[:n], p[:n]
		var mean T
		for j, v := range row {
			mean += v * w[j]
		}
		for j, v := range row {
			row[j] = s * w[j] * (v - mean)
		}
	}
}
