package stats

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// ErrOneValue is returned for samples of fewer than two values: one run says nothing about the spread between runs.
var ErrOneValue = errors.New("a sample of fewer than two values has no spread")

// ErrNoSpread is returned if all values of a sample are equal, so that no standard error can be estimated.
var ErrNoSpread = errors.New("the values do not vary")

// TTest is a difference of means with the results of a t-test.
type TTest struct {
	Difference float64 `json:"difference"`
	Interval
	SE float64 `json:"se"` // standard error of the difference
	T  float64 `json:"t"`
	DF float64 `json:"df"` // degrees of freedom
	P  float64 `json:"p"`  // two-sided
}

// Welch compares the means of two independent samples with possibly different variances, such as the M-Recalls of two
// settings over several seeds. It returns the difference mean(a) - mean(b), its interval at the given level (0.95), and
// the two-sided p-value.
//
//	t  = (mean a - mean b) / se,   se^2 = va + vb, va = sd_a^2 / n_a
//	df = (va + vb)^2 / (va^2 / (n_a - 1) + vb^2 / (n_b - 1))
//
// Source: B. L. Welch, The generalization of "Student's" problem when several different population variances are
// involved, Biometrika 34 (1947).
func Welch(a, b []float64, level float64) (TTest, error) {
	if len(a) < 2 || len(b) < 2 {
		return TTest{}, fmt.Errorf("the test of Welch of %d and %d values: %w", len(a), len(b), ErrOneValue)
	}
	na, nb := float64(len(a)), float64(len(b))
	ma, va := stat.MeanVariance(a, nil)
	mb, vb := stat.MeanVariance(b, nil)
	va, vb = va/na, vb/nb
	df := (va + vb) * (va + vb) / (va*va/(na-1) + vb*vb/(nb-1))
	return student(ma-mb, math.Sqrt(va+vb), df, level)
}

// OneSample tests whether the mean of values, such as differences between runs with the same seed, is 0. Difference is
// the mean.
func OneSample(values []float64, level float64) (TTest, error) {
	if len(values) < 2 {
		return TTest{}, fmt.Errorf("the test of Student of %d values: %w", len(values), ErrOneValue)
	}
	n := float64(len(values))
	mean, sd := stat.MeanStdDev(values, nil)
	return student(mean, sd/math.Sqrt(n), n-1, level)
}

func student(difference, se, df, level float64) (TTest, error) {
	if !(se > 0) {
		return TTest{}, ErrNoSpread
	}
	dist := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}
	half := se * dist.Quantile((1+level)/2)
	t := difference / se
	return TTest{Difference: difference, Interval: Interval{difference - half, difference + half}, SE: se, T: t,
		DF: df, P: 2 * dist.CDF(-math.Abs(t))}, nil
}

// Equivalence tests whether the means differ by less than margin. It returns the p-value of the hypothesis that they
// differ by margin or more: the larger p-value of two one-sided tests against -margin and +margin.
//
// Source: D. J. Schuirmann, A comparison of the two one-sided tests procedure and the power approach for assessing the
// equivalence of average bioavailability, J. Pharmacokinetics and Biopharmaceutics 15 (1987).
func (t TTest) Equivalence(margin float64) float64 {
	return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: t.DF}.CDF((math.Abs(t.Difference) - margin) / t.SE)
}

// Holm corrects the p-values of several tests, so that the probability of any false positive is at most the
// significance level: the i-th smallest of n p-values, from 0, is multiplied by n - i; the result is at least the one
// before it, and at most 1.
//
// Source: S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian J. of Statistics 6 (1979).
func Holm(p []float64) []float64 {
	corrected, least := make([]float64, len(p)), 0.0
	for i, at := range sorted(len(p), func(i, j int) int { return cmp.Compare(p[i], p[j]) }) {
		least = max(least, min(1, p[at]*float64(len(p)-i)))
		corrected[at] = least
	}
	return corrected
}
