// Package stats says how sure a measured difference is: bootstrap intervals, permutation tests, Student's t for runs with several seeds, and
// rank correlations. It knows nothing of retrieval; docs/statistics.md tells what is computed of which numbers.
package stats

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// ErrOneValue is returned for samples of fewer than two values: one run says nothing of the spread between runs.
var ErrOneValue = errors.New("a sample of fewer than two values has no spread")

// ErrNoSpread is returned where all values of a test are equal, so that no error can be estimated.
var ErrNoSpread = errors.New("the values do not vary")

// Sample is a summary of values.
type Sample struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"` // sample standard deviation, sqrt(sum (v - mean)^2 / (n - 1)); 0 of one value
}

// NewSample summarises values, of which there must be one at least.
func NewSample(values []float64) Sample {
	if len(values) < 2 {
		return Sample{len(values), stat.Mean(values, nil), 0}
	}
	mean, sd := stat.MeanStdDev(values, nil)
	return Sample{len(values), mean, sd}
}

// TTest is a difference of means with what Student's distribution says of it.
type TTest struct {
	Difference float64 `json:"difference"`
	Interval
	T  float64 `json:"t"`
	DF float64 `json:"df"` // degrees of freedom
	P  float64 `json:"p"`  // two-sided
}

// Welch compares the means of two independent samples whose spreads may differ, such as the M-Recalls of two settings, each trained
// with some seeds: the difference mean(a) - mean(b), its interval at the given level (0.95), and the two-sided p-value.
//
//	t = (mean a - mean b) / se     se^2 = va + vb, va = sd_a^2 / n_a     df = (va + vb)^2 / (va^2 / (n_a - 1) + vb^2 / (n_b - 1))
//
// Source: B. L. Welch, The generalization of "Student's" problem when several different population variances are involved, Biometrika 34 (1947).
func Welch(a, b []float64, level float64) (TTest, error) {
	x, y := NewSample(a), NewSample(b)
	if x.N < 2 || y.N < 2 {
		return TTest{}, fmt.Errorf("Welch's test of %d and %d values: %w", x.N, y.N, ErrOneValue)
	}
	va, vb := x.SD*x.SD/float64(x.N), y.SD*y.SD/float64(y.N)
	df := (va + vb) * (va + vb) / (va*va/float64(x.N-1) + vb*vb/float64(y.N-1))
	return student(x.Mean-y.Mean, math.Sqrt(va+vb), df, level)
}

// OneSample tests whether the mean of values, such as differences between runs of one seed, is 0; Difference is that mean.
func OneSample(values []float64, level float64) (TTest, error) {
	s := NewSample(values)
	if s.N < 2 {
		return TTest{}, fmt.Errorf("Student's test of %d values: %w", s.N, ErrOneValue)
	}
	return student(s.Mean, s.SD/math.Sqrt(float64(s.N)), float64(s.N-1), level)
}

func student(difference, se, df, level float64) (TTest, error) {
	if !(se > 0) {
		return TTest{}, ErrNoSpread
	}
	dist := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df}
	half := se * dist.Quantile((1+level)/2)
	t := difference / se
	return TTest{Difference: difference, Interval: Interval{difference - half, difference + half}, T: t, DF: df, P: 2 * dist.CDF(-math.Abs(t))}, nil
}
