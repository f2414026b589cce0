package eval

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"vsetrain/data"
	"vsetrain/internal/compute/par"
)

// Ranks returns the 0-based rank of every query in S [N, M]; own holds the captions of each image:
//
//	i2t[i] = min over the captions of image i of their position in row i        (N values)
//	t2i[c] = position of the image of caption c in column c                     (M values)
//
// Positions are in descending order of score; among equal scores the larger index comes first. Nothing is sorted: a
// rank is the number of candidates above,
//
//	position of o = #{j > o: S_j >= S_o} + #{j < o: S_j > S_o}
//
// and the best own caption is the one with the highest score, on ties the last of them. own has N images and M
// captions; every image has at least one caption. A NaN score is an error that names its image and caption. Results do
// not depend on the pool, which may be nil.
func Ranks(pool *par.Pool, s Scores, own data.Groups) (i2t, t2i []int, err error) {
	i2t, t2i, _, err = ranksAndTies(usualTiles(), pool, s, own)
	return i2t, t2i, err
}

// Ties counts the queries whose rank depends on the order of equal scores: a wrong candidate has exactly the score of
// the match that ranks first. The usual reason is equal captions of different images.
type Ties struct {
	I2T int `json:"i2t"`
	T2I int `json:"t2i"`
}

// ranksAndTies is Ranks in tiles of a given size, and counts the ties.
func ranksAndTies(t tileSize, pool *par.Pool, s Scores, own data.Groups) (i2t, t2i []int, ties Ties, err error) {
	if err := fit(s, own); err != nil {
		return nil, nil, ties, err
	}
	n, m := s.Dims()
	r := &ranking{s: s, groups: own, best: make([]int, n), bestScore: make([]float64, n), own: make([]float64, m),
		aboveI: make([]atomic.Int64, n), aboveC: make([]atomic.Int64, m), equalI: make([]atomic.Int32, n),
		equalC: make([]atomic.Int32, m)}
	r.nan.Store(math.MaxInt64)
	pool.For(n, par.Func(r.matches))
	eachTile(t, pool, s, r.count)
	if at := r.nan.Load(); at != math.MaxInt64 {
		return nil, nil, ties, fmt.Errorf("the score of image %d and caption %d is NaN: the network has diverged, or "+
			"one of the two has an all-zero input",
			at/int64(m), at%int64(m))
	}
	i2t, t2i = make([]int, n), make([]int, m)
	for i := range i2t {
		i2t[i] = int(r.aboveI[i].Load())
		ties.I2T += b2i(r.equalI[i].Load() > 0)
	}
	for c := range t2i {
		t2i[c] = int(r.aboveC[c].Load())
		ties.T2I += b2i(r.equalC[c].Load() > 0)
	}
	return i2t, t2i, ties, nil
}

// fit returns an error if scores do not fit the images and captions of a split.
func fit(s Scores, own data.Groups) error {
	n, m := s.Dims()
	if least, _ := own.Range(); n <= 0 || own.Images() != n || own.Items() != m || least < 1 {
		return fmt.Errorf("scores of %d images x %d captions cannot be ranked: expected scores of %d images and their "+
			"%d captions (%v per image)", n, m, own.Images(), own.Items(), own)
	}
	return nil
}

type ranking struct {
	s         Scores
	groups    data.Groups
	best      []int     // [N] the own caption of each image that ranks first
	bestScore []float64 // [N] its score
	own       []float64 // [M] score of each caption with its own image
	aboveI    []atomic.Int64
	aboveC    []atomic.Int64
	// [N] wrong captions with the best own score; matches starts below 0 to make up for the own captions
	equalI []atomic.Int32
	equalC []atomic.Int32 // [M] wrong images with the own score, likewise
	nan    atomic.Int64   // lowest i*M + c with a NaN score
}

// matches finds the scores of image i with its own captions.
func (r *ranking) matches(_, i int) {
	first, end := r.groups.First(i), r.groups.First(i+1)
	r.best[i] = first
	for c := first; c < end; c++ {
		r.own[c] = r.s.At(i, c)
		if c == first || r.own[c] >= r.bestScore[i] {
			r.best[i], r.bestScore[i] = c, r.own[c]
		}
		r.equalC[c].Store(-1)
	}
	for _, v := range r.own[first:end] {
		if v == r.bestScore[i] {
			r.equalI[i].Add(-1)
		}
	}
}

// count counts, in one tile of S, the captions that rank above the best own caption of each image, and the images that
// rank above the own image of each caption.
func (r *ranking) count(i0, i1, c0, c1 int, tile []float64) {
	w := c1 - c0
	above, equal := make([]int, w), make([]int32, w)
	for i := i0; i < i1; i++ {
		row := tile[(i-i0)*w : (i-i0+1)*w]
		if c := firstNaN(row); c >= 0 {
			lower(&r.nan, int64(i)*int64(len(r.own))+int64(c0+c))
			return
		}
		// Captions [c0, p) have own images before i, so this image wins their ties. Captions [q, c1) come after the
		// best own caption, so they win the ties with it.
		p := min(max(r.groups.First(i), c0), c1) - c0
		q := min(max(r.best[i], c0), c1) - c0
		own, b := r.own[c0:c1], r.bestScore[i]
		count := 0
		for c, v := range row[:p] {
			above[c] += b2i(v >= own[c])
		}
		for c := p; c < w; c++ {
			above[c] += b2i(row[c] > own[c])
		}
		for _, v := range row[:q] {
			count += b2i(v > b)
		}
		for _, v := range row[q:] {
			count += b2i(v >= b)
		}
		if at := r.best[i]; at >= c0 && at < c1 {
			count-- // the best own caption does not rank above itself
		}
		r.aboveI[i].Add(int64(count))
		same := int32(0)
		for c, v := range row {
			same += int32(b2i(v == b))
			equal[c] += int32(b2i(v == own[c]))
		}
		if same > 0 {
			r.equalI[i].Add(same)
		}
	}
	for c, v := range above {
		r.aboveC[c0+c].Add(int64(v))
		if equal[c] > 0 {
			r.equalC[c0+c].Add(equal[c])
		}
	}
}

// firstNaN returns the index of the first NaN, -1 if there is none.
func firstNaN(row []float64) int {
	bad := 0
	for _, v := range row {
		bad += b2i(v != v)
	}
	if bad == 0 {
		return -1
	}
	return slices.IndexFunc(row, math.IsNaN)
}

// b2i compiles to a flag instead of a branch: scores are random, and a branch would be mispredicted.
func b2i(b bool) int {
	var n int
	if b {
		n = 1
	}
	return n
}
