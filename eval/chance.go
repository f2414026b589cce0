package eval

import "vsetrain/data"

// Chance returns the recalls of random scores on a split, in percent, on average over such scores. An image of k
// captions among M finds one of them among its first K with the probability 1 - C(M-k, K) / C(M, K), a caption its
// image among N with K / N. Ranks are left out.
func Chance(own data.Groups) (m Metrics) {
	n, all := own.Images(), own.Items()
	recall := func(first int) (i2t, t2i float64) {
		for i := range n {
			none := 1.0 // of the captions of image i are among the first
			for j := range min(first, all) {
				none *= float64(max(0, all-(own.First(i+1)-own.First(i))-j)) / float64(all-j)
			}
			i2t += 100 * (1 - none) / float64(n)
		}
		return i2t, 100 * float64(min(first, n)) / float64(n)
	}
	m.I2T.R1, m.T2I.R1 = recall(1)
	m.I2T.R5, m.T2I.R5 = recall(5)
	m.I2T.R10, m.T2I.R10 = recall(10)
	m.RSum = m.I2T.R1 + m.I2T.R5 + m.I2T.R10 + m.T2I.R1 + m.T2I.R5 + m.T2I.R10
	m.MRecall = m.RSum / 6
	return m
}

// Chance is the M-Recall of random scores by the protocol of the result.
func (r *Result) Chance() (mRecall float64) {
	folds := max(1, len(r.Folds))
	size := r.Own.Images() / folds
	for f := range folds {
		mRecall += Chance(r.Own.Part(f*size, (f+1)*size)).MRecall / float64(folds)
	}
	return mRecall
}
