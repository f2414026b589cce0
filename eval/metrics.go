package eval

import (
	"math"
	"slices"
)

// Recalls are the measures of one direction: percentages of queries whose rank is below 1, 5 and 10, and the
// 1-based median and mean rank.
//
//	R@K = 100 #{rank < K} / #queries      medr = floor(median rank) + 1      meanr = mean rank + 1
type Recalls struct {
	R1    float64 `json:"r1"`
	R5    float64 `json:"r5"`
	R10   float64 `json:"r10"`
	MedR  float64 `json:"medr"` // whole, except in the mean of folds
	MeanR float64 `json:"meanr"`
}

// Metrics are the measures of one score matrix, or their mean over folds.
type Metrics struct {
	Protocol string  `json:"protocol"`
	I2T      Recalls `json:"i2t"`      // queries are images
	T2I      Recalls `json:"t2i"`      // queries are captions
	RSum     float64 `json:"rsum"`     // sum of the six recalls, 0..600
	MRecall  float64 `json:"m_recall"` // rsum / 6: the measure that chooses the best model
	Ties     Ties    `json:"ties"`     // queries whose rank depends on the order of equal scores; the sum over folds
}

// NewRecalls computes the measures of one direction from 0-based ranks. It needs at least one rank.
func NewRecalls(ranks []int) Recalls {
	var r Recalls
	var sum int
	for _, k := range ranks {
		sum += k
		r.R1 += float64(b2i(k < 1))
		r.R5 += float64(b2i(k < 5))
		r.R10 += float64(b2i(k < 10))
	}
	n := float64(len(ranks))
	r.R1, r.R5, r.R10 = 100*r.R1/n, 100*r.R5/n, 100*r.R10/n
	sorted := slices.Sorted(slices.Values(ranks))
	h := len(sorted) / 2
	if len(sorted)%2 == 1 {
		r.MedR = float64(sorted[h]) + 1
	} else {
		r.MedR = math.Floor(float64(sorted[h-1]+sorted[h])/2) + 1
	}
	r.MeanR = float64(sum)/n + 1
	return r
}

// NewMetrics computes the measures of both directions from 0-based ranks.
func NewMetrics(i2t, t2i []int) Metrics {
	m := Metrics{I2T: NewRecalls(i2t), T2I: NewRecalls(t2i)}
	m.RSum = m.I2T.sum() + m.T2I.sum()
	m.MRecall = m.RSum / 6
	return m
}

func (r Recalls) sum() float64 { return r.R1 + r.R5 + r.R10 }

// Mean returns the mean of R@1, R@5 and R@10.
func (r Recalls) Mean() float64 { return r.sum() / 3 }

// MeanSpread returns the mean and the population standard deviation of the three recalls: the "Mean (± x)" columns of
// the LSEH paper's tables and the "Average Recall" of the reference logs.
func (r Recalls) MeanSpread() (mean, spread float64) { return MeanSpread(r.R1, r.R5, r.R10) }

// MeanSpread returns the mean of different measures and their population standard deviation sqrt(sum (v - mean)^2 / n).
// The LSEH paper uses it to show how far the measures differ from each other; it is not an uncertainty. Both are NaN
// without values.
func MeanSpread(values ...float64) (mean, spread float64) {
	mean, sum := squares(values)
	return mean, math.Sqrt(sum / float64(len(values)))
}

// MeanStd returns the mean of a measure over runs with different seeds, and its sample standard deviation
//
//	std = sqrt(sum (v - mean)^2 / (n - 1))
//
// which estimates the standard deviation over all seeds. std is NaN with fewer than two values, the mean without
// values.
func MeanStd(values ...float64) (mean, std float64) {
	mean, sum := squares(values)
	if len(values) < 2 {
		return mean, math.NaN()
	}
	return mean, math.Sqrt(sum / float64(len(values)-1))
}

// squares returns the mean and the sum of squared deviations from it.
func squares(values []float64) (mean, sum float64) {
	for _, v := range values {
		mean += v
	}
	mean /= float64(len(values))
	for _, v := range values {
		sum += (v - mean) * (v - mean)
	}
	return mean, sum
}

// VSRNSum returns the sum of R@1 and R@5 of both directions. VSRN's training script calls this sum "rsum" and chooses
// its best model by it.
func (m Metrics) VSRNSum() float64 { return m.I2T.R1 + m.I2T.R5 + m.T2I.R1 + m.T2I.R5 }

// meanOf returns the mean of every measure over one or more folds, and the sum of their ties.
func meanOf(folds []Metrics) (mean Metrics) {
	to := mean.numbers()
	for _, f := range folds {
		for i, v := range f.numbers() {
			*to[i] += *v
		}
		mean.Ties.I2T += f.Ties.I2T
		mean.Ties.T2I += f.Ties.T2I
	}
	for _, v := range to {
		*v /= float64(len(folds))
	}
	return mean
}

// numbers are all measures but the ties.
func (m *Metrics) numbers() []*float64 {
	i, t := &m.I2T, &m.T2I
	return []*float64{&i.R1, &i.R5, &i.R10, &i.MedR, &i.MeanR, &t.R1, &t.R5, &t.R10, &t.MedR, &t.MeanR, &m.RSum,
		&m.MRecall}
}
