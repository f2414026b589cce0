package synth

import (
	"math"

	"vsetrain/internal/compute/philox"
)

// pick returns an index with probability proportional to its weight; weights must have a positive sum.
func pick(s *philox.Stream, weights []float64) int {
	var sum float64
	for _, w := range weights {
		sum += w
	}
	u := s.Float64() * sum
	last := 0
	for i, w := range weights {
		if w <= 0 {
			continue
		}
		last = i
		if u < w {
			return i
		}
		u -= w
	}
	return last
}

// zipf holds the weights (rank+1)^-exponent of the ranks 0..n-1.
type zipf []float64

func newZipf(n int, exponent float64) zipf {
	z := make(zipf, n)
	for i := range z {
		z[i] = math.Pow(float64(i+1), -exponent)
	}
	return z
}

// draw returns a rank below n, which must not exceed the length of the table.
func (z zipf) draw(s *philox.Stream, n int) int { return pick(s, z[:n]) }

// chance is true with probability p.
func chance(s *philox.Stream, p float64) bool { return s.Float64() < p }

// between returns a uniform draw in [lo, hi).
func between(s *philox.Stream, lo, hi float64) float64 { return lo + (hi-lo)*s.Float64() }
