package synth

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"vsetrain/lab/try"
)

// A linear probe shows that the world can be learnt and how far the simplest model comes: ridge regression from the
// mean region [D] to the bag of words of a caption, W = (XᵀX + λI)⁻¹XᵀY, captions ranked by cosine to the prediction.
func TestLinearProbeBeatsChance(t *testing.T) {
	o := Default()
	o.Train, o.Dev, o.Test, o.Dim = 1500, 0, 200, 128
	dir := generated(t, o)
	vocab := map[string]int{}
	x, y := probeSplit(t, dir, "train", o.Train, 5, vocab)
	u, v := probeSplit(t, dir, "test", o.Test, 1, vocab)
	centre(x, u)
	idf(y, v)
	centre(y, v)
	var a, b, w, predicted, scores mat.Dense
	a.Mul(x.T(), x)
	for i := range o.Dim {
		a.Set(i, i, a.At(i, i)+30)
	}
	b.Mul(x.T(), y)
	try.Do(t, w.Solve(&a, &b))
	predicted.Mul(u, &w)
	scores.Mul(&predicted, v.T())
	// The captions of an image and the image whose captions they are; shifted pairs must score chance.
	right, wrong := probeRecall(&scores, v, 10, 0), probeRecall(&scores, v, 10, 77)
	t.Logf("R@10 of 200 images: %.1f %%, wrongly paired %.1f %%, chance 5.0 %%", right, wrong)
	if right < 70 {
		t.Errorf("R@10 %.1f %%: the features say too little about the captions", right)
	}
	if right > 90 {
		t.Errorf("R@10 %.1f %%: a linear probe must leave room for better models", right)
	}
	if wrong > 12 {
		t.Errorf("R@10 of wrong pairs %.1f %%, want about 5", wrong)
	}
}

// probeSplit returns the mean regions [N, D] and bags of words [N, V] of the first captions of each image. An empty
// vocabulary takes their words.
func probeSplit(t *testing.T, dir, split string, n, captions int, vocab map[string]int) (x, y *mat.Dense) {
	t.Helper()
	const regions, dim = 36, 128
	x = mat.NewDense(n, dim, nil)
	for i, v := range array(t, dir, split+"_ims.npy", n, regions, dim) {
		row := x.RawRowView(i / (regions * dim))
		row[i%dim] += v / regions
	}
	caps, grow := lines(t, dir, split+"_caps.txt"), len(vocab) == 0
	for i := 0; grow && i < len(caps); i++ {
		for _, w := range tokens(caps[i]) {
			if _, ok := vocab[w]; !ok {
				vocab[w] = len(vocab)
			}
		}
	}
	y = mat.NewDense(n, len(vocab), nil)
	for i := range n {
		for _, c := range caps[5*i : 5*i+captions] {
			for _, w := range tokens(c) {
				if id, ok := vocab[w]; ok {
					y.Set(i, id, 1)
				}
			}
		}
	}
	return x, y
}

// byColumn changes every column of both matrices by a function of its sum over the n rows of ref.
func byColumn(ref, other *mat.Dense, change func(v, sum float64, n int) float64) {
	n, d := ref.Dims()
	sums := make([]float64, d)
	for j := range sums {
		sums[j] = mat.Sum(ref.ColView(j))
	}
	for _, m := range []*mat.Dense{ref, other} {
		m.Apply(func(_, j int, v float64) float64 { return change(v, sums[j], n) }, m)
	}
}

// centre subtracts the column means of ref.
func centre(ref, other *mat.Dense) {
	byColumn(ref, other, func(v, sum float64, n int) float64 { return v - sum/float64(n) })
}

// idf scales words by the logarithm of their rarity in ref.
func idf(ref, other *mat.Dense) {
	byColumn(ref, other, func(v, sum float64, n int) float64 { return v * math.Log(float64(n)/(1+sum)) })
}

// probeRecall returns R@k in per cent from images to captions, caption i+shift counting as the right one. scores [N, N]
// are divided by the norms of the captions.
func probeRecall(scores, captions *mat.Dense, k, shift int) float64 {
	n, _ := captions.Dims()
	hits := 0
	for i := range n {
		score := func(j int) float64 { return scores.At(i, j) / mat.Norm(captions.RowView(j), 2) }
		right, better := score((i+shift)%n), 0
		for j := range n {
			if score(j) > right {
				better++
			}
		}
		if better < k {
			hits++
		}
	}
	return 100 * float64(hits) / float64(n)
}
