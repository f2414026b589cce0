package eval

import (
	"math"

	"vsetrain/internal/compute/par"
)

// MineOptions says which negatives Mine returns.
type MineOptions struct {
	Depth int // negatives of each query, at most

	// Rho leaves out negatives with a score above p - (1-Rho) |p|, where p is the score of the match: they may be right
	// (NV-Retriever, arXiv 2407.15831; package loss, relative). 0 leaves out none.
	Rho float64
}

// Mine returns the hardest negatives: for every image the captions, and for every caption the images, that score
// highest without belonging to it. own holds the image of each caption. The match of an image is the one of its
// captions that scores highest. Scores are read block by block. The result does not depend on the pool, which may be
// nil.
func Mine(pool *par.Pool, s Scores, own []int32, o MineOptions) (images, captions []TopList) {
	return mineIn(usualTiles(), pool, s, own, o)
}

func mineIn(size tileSize, pool *par.Pool, s Scores, own []int32, o MineOptions) (images, captions []TopList) {
	n, m := s.Dims()
	limitOf := func(match float64) float64 { return match - (1-o.Rho)*math.Abs(match) }
	ofImage, ofCaption := make([]float64, n), make([]float64, m)
	for i := range ofImage {
		ofImage[i] = math.Inf(-1)
	}
	for i0 := 0; i0 < n; i0 += size.images { // block by block, in the order in which stored scores are read
		for c, i := range own {
			if int(i) < i0 || int(i) >= i0+size.images {
				continue
			}
			v := s.At(int(i), c)
			ofCaption[c], ofImage[i] = limitOf(v), max(ofImage[i], limitOf(v))
		}
	}
	return tops(size, pool, s, o.Depth, func(i, c int, v float64) (image, caption bool) {
		if int(own[c]) == i {
			return false, false
		}
		return o.Rho == 0 || v <= ofImage[i] || math.IsInf(ofImage[i], -1), o.Rho == 0 || v <= ofCaption[c]
	})
}
