package train

import (
	"cmp"
	"math"
	"slices"

	"vsetrain/internal/compute/tile64"
)

// FalseNegatives measures how similar the negatives of training batches are to their anchors, by the semantic vectors
// of the captions. The hard negative of an anchor has the largest hinge, as in training. A negative with a semantic
// similarity of at least FalseSimilarity is false: it describes nearly the same.
type FalseNegatives struct {
	Hard        int     `json:"hard"`            // number of hard negatives
	HardSimilar float64 `json:"hard_similarity"` // their mean semantic similarity
	AllSimilar  float64 `json:"all_similarity"`  // mean semantic similarity of all negatives
	HardFalse   float64 `json:"hard_false"`      // percent of the hard negatives that are false
	AllFalse    float64 `json:"all_false"`       // percent of all negatives
	all         int
}

// FalseSimilarity is the smallest semantic similarity of a false negative.
const FalseSimilarity = 0.5

// Add counts one batch with scores, margins and semantic similarities [n, n]. Row i is the image of caption i, and
// images [n] are the indices of the images.
func (f *FalseNegatives) Add(scores, margins, similar []float64, images []int32) {
	n := len(images)
	row, column := make([]int, n), make([]int, n) // the hard negative of each anchor
	for i := range n {
		row[i], column[i] = -1, -1
	}
	hinge := func(at, match int) float64 { return margins[at] + scores[at] - scores[match*n+match] }
	for i := range n {
		for c := range n {
			at := i*n + c
			if images[i] == images[c] {
				continue
			}
			f.all++
			f.AllSimilar += similar[at]
			if similar[at] >= FalseSimilarity {
				f.AllFalse++
			}
			if row[i] < 0 || hinge(at, i) > hinge(row[i], i) {
				row[i] = at
			}
			if column[c] < 0 || hinge(at, c) > hinge(column[c], c) {
				column[c] = at
			}
		}
	}
	for _, at := range append(row, column...) {
		if at < 0 {
			continue
		}
		f.Hard++
		f.HardSimilar += similar[at]
		if similar[at] >= FalseSimilarity {
			f.HardFalse++
		}
	}
}

// Finish turns the sums over all batches into means.
func (f *FalseNegatives) Finish() {
	hard := math.Max(1, float64(f.Hard))
	f.HardSimilar, f.HardFalse = f.HardSimilar/hard, 100*f.HardFalse/hard
	f.AllSimilar, f.AllFalse = f.AllSimilar/math.Max(1, float64(f.all)), 100*f.AllFalse/math.Max(1, float64(f.all))
}

// FalseNegatives measures the batch. Its captions have semantic vectors [n, dim], and images [n] are the indices of
// their images. cosine selects the similarity, as LSEH's options do.
func (b *Scored) FalseNegatives(images []int32, vectors []float32, dim int, cosine bool) FalseNegatives {
	n := len(b.Captions)
	scores, margins := make([]float64, n*n), make([]float64, n*n)
	for i, v := range b.Scores {
		scores[i], margins[i] = float64(v), b.Constant
		if b.Margins != nil {
			margins[i] = float64(b.Margins[i])
		}
	}
	var f FalseNegatives
	f.Add(scores, margins, similarities(vectors, n, dim, cosine), images)
	f.Finish()
	return f
}

// similarities returns the semantic similarities [n, n] of vectors [n, dim] as LSEH defines them: inner products
// divided by the largest of their row, or cosines.
func similarities(vectors []float32, n, dim int, cosine bool) []float64 {
	const rows, columns = tile64.Rows, tile64.Columns
	kernel, stride := tile64.Best(), (n+rows-1)/rows*rows
	out, across := make([]float64, n*n), make([]float64, dim*stride) // the vectors as columns
	panel, tile := make([]float32, dim*columns), make([]float64, rows*columns)
	for i, v := range vectors {
		across[i%dim*stride+i/dim] = float64(v)
	}
	for j := 0; j < n; j += columns {
		for k := range min(columns, n-j) {
			for t, v := range vectors[(j+k)*dim : (j+k+1)*dim] {
				panel[t*columns+k] = v
			}
		}
		for i := 0; i < n; i += rows {
			clear(tile)
			kernel.Single(dim, across[i:], stride, panel, tile)
			for k := i; k < min(n, i+rows); k++ {
				copy(out[k*n+j:(k+1)*n], tile[(k-i)*columns:(k-i+1)*columns])
			}
		}
	}
	scale := make([]float64, n)
	for i := range n {
		scale[i] = slices.Max(out[i*n : (i+1)*n])
		if cosine {
			scale[i] = math.Sqrt(out[i*n+i])
		}
		scale[i] = cmp.Or(scale[i], 1)
	}
	for i := range n {
		for j := range n {
			out[i*n+j] /= scale[i]
			if cosine {
				out[i*n+j] /= scale[j]
			}
		}
	}
	return out
}
