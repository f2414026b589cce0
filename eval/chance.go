package eval

import "vsetrain/data"

// Chance returns the expected recalls of random scores on a split, in percent. The K best of M captions hold one of the
// k captions of an image with probability 1 - C(M-k, K) / C(M, K). The K best of N images hold the image of a caption
// with probability K / N. MedR and MeanR stay 0.
func Chance(own data.Groups) (m Metrics) {
	n, all := own.Images(), own.Items()
	recall := func(first int) (i2t, t2i float64) {
		for i := range n {
			none := 1.0 // probability that none of the captions of image i is among the first
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
	m.RSum = m.I2T.sum() + m.T2I.sum()
	m.MRecall = m.RSum / 6
	return m
}

// Chance returns the expected M-Recall of random scores under the protocol of the result.
func (r *Result) Chance() (mRecall float64) {
	folds := max(1, len(r.Folds))
	size := r.Own.Images() / folds
	for f := range folds {
		mRecall += Chance(r.Own.Part(f*size, (f+1)*size)).MRecall / float64(folds)
	}
	return mRecall
}
