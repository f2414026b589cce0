package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Kendall returns the two forms of Kendall's rank correlation that allow for ties, of n pairs (x, y) with C concordant
// and D discordant pairs of pairs:
//
//	tau-b = (C - D) / sqrt((n0 - n1) (n0 - n2))     n0 = n (n-1) / 2; n1, n2 = pairs of pairs tied in x, in y
//	tau-c = 2 (C - D) m / (n^2 (m - 1))             m = the smaller number of different values, of x or of y
//
// It takes O(n log n) time. Values must be finite, with at least two different values on both sides.
//
// Sources: W. R. Knight, A computer method for calculating Kendall's tau with ungrouped data, JASA 61 (1966); A.
// Stuart, The estimation and comparison of strengths of association in contingency tables, Biometrika 40 (1953).
func Kendall(x, y []float64) (b, c float64, err error) {
	if err := paired(x, y); err != nil {
		return 0, 0, fmt.Errorf("the tau of Kendall: %w", err)
	}
	n := len(x)
	order := sorted(n, func(i, j int) int { return cmp.Or(cmp.Compare(x[i], x[j]), cmp.Compare(y[i], y[j])) })
	xs, ys := make([]float64, n), make([]float64, n)
	for r, i := range order {
		xs[r], ys[r] = x[i], y[i]
	}
	tiedX, differentX := ties(n, func(i int) bool { return xs[i] == xs[i-1] })
	tiedBoth, _ := ties(n, func(i int) bool { return xs[i] == xs[i-1] && ys[i] == ys[i-1] })
	discordant := inversions(ys, make([]float64, n)) // sorts ys
	tiedY, differentY := ties(n, func(i int) bool { return ys[i] == ys[i-1] })

	all := int64(n) * int64(n-1) / 2
	surplus := float64(all - tiedX - tiedY + tiedBoth - 2*discordant) // C - D
	b = surplus / math.Sqrt(float64(all-tiedX)) / math.Sqrt(float64(all-tiedY))
	m := float64(min(differentX, differentY))
	c = 2 * surplus * m / (float64(n) * float64(n) * (m - 1))
	return b, c, nil
}

// Spearman returns Spearman's rank correlation: Pearson's correlation of the ranks, where equal values have the mean of
// their ranks. Values must be finite, with at least two different values on both sides.
func Spearman(x, y []float64) (float64, error) {
	if err := paired(x, y); err != nil {
		return 0, fmt.Errorf("the correlation of Spearman: %w", err)
	}
	return stat.Correlation(meanRanks(x), meanRanks(y), nil), nil
}

// paired checks the two sides of a correlation.
func paired(x, y []float64) error {
	if len(x) != len(y) {
		return fmt.Errorf("%d values and %d values do not pair", len(x), len(y))
	}
	for _, v := range [][]float64{x, y} {
		different := false
		for i, e := range v {
			if e-e != 0 {
				return fmt.Errorf("value %d is %v; expected finite values", i, e)
			}
			different = different || e != v[0]
		}
		if !different {
			return fmt.Errorf("it needs at least two different values on both sides, found %d equal values on one",
				len(v))
		}
	}
	return nil
}

// ties counts the pairs of equal values and the different values among sorted values; alike(i) reports whether value i
// is equal to value i-1.
func ties(n int, alike func(i int) bool) (pairs int64, different int) {
	run := int64(0) // earlier values that are equal to this one
	for i := range n {
		if i > 0 && alike(i) {
			run++
		} else {
			run, different = 0, different+1
		}
		pairs += run
	}
	return pairs, different
}

// inversions sorts v and returns the number of pairs i < j with v[i] > v[j].
func inversions(v, scratch []float64) int64 {
	if len(v) < 2 {
		return 0
	}
	h := len(v) / 2
	n := inversions(v[:h], scratch[:h]) + inversions(v[h:], scratch[h:])
	copy(scratch, v)
	left, right := scratch[:h], scratch[h:len(v)]
	for k := range v {
		if len(right) == 0 || len(left) > 0 && left[0] <= right[0] {
			v[k], left = left[0], left[1:]
			continue
		}
		n += int64(len(left))
		v[k], right = right[0], right[1:]
	}
	return n
}

// sorted returns the indices below n in the order of a comparison.
func sorted(n int, compare func(i, j int) int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, compare)
	return order
}

// meanRanks returns the 1-based ranks of values; equal values have the mean of their ranks.
func meanRanks(v []float64) []float64 {
	order := sorted(len(v), func(i, j int) int { return cmp.Compare(v[i], v[j]) })
	ranks := make([]float64, len(v))
	for lo := 0; lo < len(order); {
		hi := lo + 1
		for hi < len(order) && v[order[hi]] == v[order[lo]] {
			hi++
		}
		for _, i := range order[lo:hi] {
			ranks[i] = float64(lo+1+hi) / 2
		}
		lo = hi
	}
	return ranks
}
