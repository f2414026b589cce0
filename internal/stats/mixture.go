package stats

import (
	"math"
	"slices"
)

// Mixture is a mixture of two normal distributions that was fitted to the losses of pairs. The losses of right pairs
// are smaller.
type Mixture struct {
	Weights, Means, Variances [2]float64 // of the losses mapped to [0, 1]
	Rounds                    int        // of expectation and maximisation
	Probability               []float64  // that a loss belongs to the component with the smaller mean
	Threshold                 float64
	Clean                     []bool // whether the probability is above the threshold
}

// FitMixture splits losses, one for each pair, into small and large losses by a mixture of two normal distributions.
// NCR finds wrong pairs this way (XLearning-SCU/2021-NeurIPS-NCR, NCR/co_train.py: eval_train, split_prob), with
// sklearn's GaussianMixture, max_iter 10, tol 1e-2 and reg_covar 5e-4. Instead of sklearn's random start, FitMixture
// starts with the split of the sorted losses into two groups with the least sum of squares. The threshold is 0.5; if
// all probabilities are above 0.5, it is the (n/100)th smallest probability, from 0. Equal losses are all clean.
func FitMixture(losses []float64) *Mixture {
	n := len(losses)
	if n == 0 || slices.Min(losses) == slices.Max(losses) {
		return &Mixture{Threshold: 0.5, Probability: slices.Repeat([]float64{1}, n),
			Clean: slices.Repeat([]bool{true}, n)}
	}
	m := &Mixture{Probability: make([]float64, n), Threshold: 0.5, Clean: make([]bool, n)}
	x := make([]float64, n)
	lo, hi := slices.Min(losses), slices.Max(losses)
	for i, l := range losses {
		x[i] = (l - lo) / (hi - lo)
	}
	r := make([][2]float64, n) // responsibilities
	cut := twoGroups(x)
	for i, v := range x {
		if v <= cut {
			r[i][0] = 1
		} else {
			r[i][1] = 1
		}
	}
	m.maximise(x, r)
	for last := math.Inf(-1); m.Rounds < 10; {
		m.Rounds++
		mean := m.expect(x, r)
		m.maximise(x, r)
		if math.Abs(mean-last) < 1e-2 {
			break
		}
		last = mean
	}
	m.expect(x, r)
	small := 0
	if m.Means[1] < m.Means[0] {
		small = 1
	}
	for i := range r {
		m.Probability[i] = r[i][small]
	}
	if slices.Min(m.Probability) > 0.5 {
		m.Threshold = slices.Sorted(slices.Values(m.Probability))[n/100]
	}
	for i, p := range m.Probability {
		m.Clean[i] = p > m.Threshold
	}
	return m
}

// twoGroups splits values into two groups with the least sum of squares, and returns the largest value of the lower
// group. Equal values are in the same group.
func twoGroups(x []float64) (cut float64) {
	sorted := slices.Sorted(slices.Values(x))
	n, total := float64(len(x)), 0.0
	for _, v := range sorted {
		total += v
	}
	best, sum := math.Inf(-1), 0.0
	for i, v := range sorted[:len(sorted)-1] {
		sum += v
		if v == sorted[i+1] {
			continue
		}
		k := float64(i + 1) // the sum of squares depends only on the squares of the groups' sums
		if between := sum*sum/k + (total-sum)*(total-sum)/(n-k); between > best {
			best, cut = between, v
		}
	}
	return cut
}

// maximise fits the components to responsibilities.
func (m *Mixture) maximise(x []float64, r [][2]float64) {
	const tiny, narrowest = 10 * 0x1p-52, 5e-4
	var sums [2]float64
	for k := range sums {
		sums[k] = tiny
		mean, square := 0.0, 0.0
		for i, v := range x {
			sums[k] += r[i][k]
			mean += r[i][k] * v
		}
		m.Means[k] = mean / sums[k]
		for i, v := range x {
			square += r[i][k] * (v - m.Means[k]) * (v - m.Means[k])
		}
		m.Variances[k] = square/sums[k] + narrowest
	}
	for k := range sums {
		m.Weights[k] = sums[k] / (sums[0] + sums[1])
	}
}

// expect computes responsibilities and returns the mean log-likelihood.
func (m *Mixture) expect(x []float64, r [][2]float64) (mean float64) {
	for i, v := range x {
		var log [2]float64
		for k := range log {
			d := v - m.Means[k]
			log[k] = math.Log(m.Weights[k]) - (math.Log(2*math.Pi*m.Variances[k])+d*d/m.Variances[k])/2
		}
		most := max(log[0], log[1])
		whole := most + math.Log(math.Exp(log[0]-most)+math.Exp(log[1]-most))
		for k := range log {
			r[i][k] = math.Exp(log[k] - whole)
		}
		mean += whole / float64(len(x))
	}
	return mean
}
