package synth

import (
	"math"
	"path/filepath"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// A linear probe shows that the world can be learnt and how far the simplest model comes: ridge regression from the
// mean region [D] to the bag of words of a caption, W = (XᵀX + λI)⁻¹XᵀY, captions ranked by cosine to the prediction.
func TestLinearProbeBeatsChance(t *testing.T) {
	o := Default()
	o.Train, o.Dev, o.Test, o.Dim = 1500, 0, 200, 128
	dir := generated(t, o)
	vocab := map[string]int{}
	x, y := probeSplit(t, dir, "train", o, vocab, true)
	u, v := probeSplit(t, dir, "test", o, vocab, false)
	centre(x, x, u)
	idf(y, y, v)
	w := ridge(x, y, 30)
	// The captions of an image and the image whose captions they are; shifted pairs must score chance.
	right, wrong := probeRecall(w, u, v, 10, 0), probeRecall(w, u, v, 10, 77)
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

// probeSplit returns the mean regions [N, D] and bags of words [N, V] of the concatenated captions of each image in
// train, of the first caption in test.
func probeSplit(t *testing.T, dir, split string, o Options, vocab map[string]int, grow bool) (x, y [][]float64) {
	t.Helper()
	f := try.Get(npy.Open(filepath.Join(dir, split+"_ims.npy")))(t)
	defer f.Close()
	row := make([]float32, f.RowLen())
	for i := range f.Rows() {
		try.Do(t, f.ReadRow(row, i))
		m := make([]float64, o.Dim)
		for j, v := range row {
			m[j%o.Dim] += float64(v) / float64(o.Regions)
		}
		x = append(x, m)
	}
	caps := lines(t, dir, split+"_caps.txt")
	for i := range x {
		bag, n := make([]float64, 3000), 1
		if grow {
			n = 5
		}
		for _, c := range caps[5*i : 5*i+n] {
			for _, w := range tokens(c) {
				if _, ok := vocab[w]; !ok && grow {
					vocab[w] = len(vocab)
				}
				if id, ok := vocab[w]; ok {
					bag[id] = 1
				}
			}
		}
		y = append(y, bag)
	}
	for i := range y {
		y[i] = y[i][:len(vocab)]
	}
	return x, y
}

// centre subtracts the column means of ref from every matrix.
func centre(ref [][]float64, all ...[][]float64) {
	mean := make([]float64, len(ref[0]))
	for _, r := range ref {
		for j, v := range r {
			mean[j] += v / float64(len(ref))
		}
	}
	seen := map[*float64]bool{}
	for _, m := range all {
		for _, r := range m {
			if seen[&r[0]] {
				continue
			}
			seen[&r[0]] = true
			for j := range r {
				r[j] -= mean[j]
			}
		}
	}
}

// idf scales words by the logarithm of their rarity in ref, then centres.
func idf(ref [][]float64, all ...[][]float64) {
	df := make([]float64, len(ref[0]))
	for _, r := range ref {
		for j, v := range r {
			df[j] += v
		}
	}
	for _, m := range all {
		for _, r := range m {
			for j := range r {
				r[j] *= math.Log(float64(len(ref)) / (1 + df[j]))
			}
		}
	}
	centre(ref, all...)
}

// ridge solves (XᵀX + λnI) W = XᵀY by Gaussian elimination; W is [D, V].
func ridge(x, y [][]float64, lambda float64) [][]float64 {
	d, v := len(x[0]), len(y[0])
	a := make([][]float64, d)
	for i := range a {
		a[i] = make([]float64, d+v)
		a[i][i] = lambda
	}
	for n := range x {
		for i, xi := range x[n] {
			for j, xj := range x[n] {
				a[i][j] += xi * xj
			}
			for j, yj := range y[n] {
				a[i][d+j] += xi * yj
			}
		}
	}
	for i := range d {
		for k := range d {
			if k == i {
				continue
			}
			f := a[k][i] / a[i][i] // positive definite: no pivoting
			for j := i; j < d+v; j++ {
				a[k][j] -= f * a[i][j]
			}
		}
	}
	for i := range a {
		f := a[i][i]
		a[i] = a[i][d:]
		for j := range a[i] {
			a[i][j] /= f
		}
	}
	return a
}

// probeRecall returns R@k in per cent from images to captions, caption i+shift counting as the right one.
func probeRecall(w, x, captions [][]float64, k, shift int) float64 {
	hits := 0
	for i := range x {
		p := make([]float64, len(captions[0]))
		for d, xd := range x[i] {
			for j, wj := range w[d] {
				p[j] += xd * wj
			}
		}
		score := func(c []float64) float64 {
			var dot, sq float64
			for j := range c {
				dot, sq = dot+p[j]*c[j], sq+c[j]*c[j]
			}
			return dot / math.Sqrt(sq)
		}
		right, better := score(captions[(i+shift)%len(captions)]), 0
		for _, c := range captions {
			if score(c) > right {
				better++
			}
		}
		if better < k {
			hits++
		}
	}
	return 100 * float64(hits) / float64(len(x))
}
