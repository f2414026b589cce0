package eval

import (
	"fmt"
	"math"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
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
	Ties     Ties    `json:"ties"`     // queries whose rank depends on the order of equal scores; of folds together
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

// Measure ranks a whole score matrix and returns its measures, without a protocol name.
func Measure(pool *par.Pool, s Scores, own data.Groups) (Metrics, error) {
	i2t, t2i, ties, err := ranksAndTies(usualTiles(), pool, s, own)
	if err != nil {
		return Metrics{}, err
	}
	m := NewMetrics(i2t, t2i)
	m.Ties = ties
	return m, nil
}

func (r Recalls) sum() float64 { return r.R1 + r.R5 + r.R10 }

// Mean returns the mean of R@1, R@5 and R@10.
func (r Recalls) Mean() float64 { return r.sum() / 3 }

// MeanSpread returns the mean of the three recalls and how far they lie from each other, as the function MeanSpread:
// the "Mean (± x)" columns of the LSEH paper's tables and the "Average Recall" of the reference logs.
func (r Recalls) MeanSpread() (mean, spread float64) { return MeanSpread(r.R1, r.R5, r.R10) }

// MeanSpread returns the mean of different measures and their population standard deviation sqrt(sum (v - mean)^2 /
// n), by which the LSEH paper says how far they lie from each other; it is not an uncertainty. Of no values both are
// NaN.
func MeanSpread(values ...float64) (mean, spread float64) {
	mean, sum := squares(values)
	return mean, math.Sqrt(sum / float64(len(values)))
}

// MeanStd returns the mean of one measure over several runs, which differ in their seeds, and its sample standard
// deviation
//
//	std = sqrt(sum (v - mean)^2 / (n - 1))
//
// which estimates the deviation of all seeds. It is NaN with fewer than two values, as the mean is of none.
func MeanStd(values ...float64) (mean, std float64) {
	mean, sum := squares(values)
	if len(values) < 2 {
		return mean, math.NaN()
	}
	return mean, math.Sqrt(sum / float64(len(values)-1))
}

// squares returns the mean and the sum of the squared deviations from it.
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

// VSRNSum is the sum of R@1 and R@5 of both directions, by which VSRN's training script chooses its best model
// (it calls this sum "rsum"); it serves to compare with its logs.
func (m Metrics) VSRNSum() float64 { return m.I2T.R1 + m.I2T.R5 + m.T2I.R1 + m.T2I.R5 }

// meanOf returns the mean of every measure over folds or runs, and their ties together.
func meanOf(folds []Metrics) (Metrics, error) {
	if len(folds) == 0 {
		return Metrics{}, fmt.Errorf("mean of no measures")
	}
	var sum Metrics
	for _, f := range folds {
		sum.I2T.add(f.I2T)
		sum.T2I.add(f.T2I)
		sum.RSum += f.RSum
		sum.MRecall += f.MRecall
		sum.Ties.I2T += f.Ties.I2T
		sum.Ties.T2I += f.Ties.T2I
	}
	n := float64(len(folds))
	sum.I2T.divide(n)
	sum.T2I.divide(n)
	sum.RSum /= n
	sum.MRecall /= n
	return sum, nil
}

func (r *Recalls) add(o Recalls) {
	r.R1, r.R5, r.R10, r.MedR, r.MeanR = r.R1+o.R1, r.R5+o.R5, r.R10+o.R10, r.MedR+o.MedR, r.MeanR+o.MeanR
}

func (r *Recalls) divide(n float64) {
	r.R1, r.R5, r.R10, r.MedR, r.MeanR = r.R1/n, r.R5/n, r.R10/n, r.MedR/n, r.MeanR/n
}
