package eval

import (
	"context"
	"math"
	"slices"
	"time"

	"vsetrain/data"
)

// Settling finds the ranks of fp32 with most pairs scored in bf16 only. A rank counts the candidates above a match. So
// the ranks of image i depend only on how its captions compare with its best own caption, and the rank of caption c on
// how the images compare with its own image. The matches are scored in fp32. For any other pair, the bf16 score decides
// if it is further from both matches than a bound; otherwise the pair is scored in fp32. Ranks, recalls and ties are
// then the same as in fp32, in folds too. The order of pairs that are not matches may differ.
//
// The bound is measured, not proven: settleSlack times the largest difference between the two scores of a pair, among
// all pairs that were scored in both precisions (the matches, sample tiles from the whole split, and pairs near a
// match). It grows until every pair within the bound has its fp32 score. All pairs are scored in fp32 if the sample
// shows that settling saves nothing: too many pairs are near a match, as at the start of a training, or bf16 is not
// much faster.
const (
	settleSlack  = 8
	settleTiles  = 4       // sample tiles
	settleLeast  = 1 << 18 // with fewer pairs in the split, settling saves nothing
	settleAtOnce = 64      // images scored with a caption in one run
	settleUnit   = 8       // the number of these images is padded to a multiple, so that there are few graphs
	settleCost   = 2       // cost of a pair near a match, in pairs of a tile
	settleGain   = 0.8     // largest fraction of the time of fp32 that settling may take
)

// Settled says how the ranks of a network that scores pairs were settled.
type Settled struct {
	Pairs   int     `json:"pairs"`
	Again   int     `json:"again"`   // pairs scored in fp32 too
	Largest float64 `json:"largest"` // largest difference between bf16 and fp32 among them
	Bound   float64 `json:"bound"`   // assumed for the other pairs
}

// settling turns bf16 scores into scores with the same ranks as fp32.
type settling struct {
	d       *Dense[float32]
	own     data.Groups
	matches []float32 // [M] fp32 score of each caption with its image
	best    []float32 // [N] the largest of them for each image
	known   []bool    // pairs of d that have their fp32 score
	again   int
	largest float64
	// exact scores images with captions in fp32: dst [images, captions]
	exact func(dst []float32, images, captions []int32) error
	now   func() time.Duration // any clock
}

// scoreMatches scores all matches in fp32.
func (s *settling) scoreMatches(ctx context.Context) error {
	n := s.own.Images()
	s.matches, s.best = make([]float32, s.own.Items()), make([]float32, n)
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		var captions []int32
		for c := range s.own.Of(i) {
			captions = append(captions, int32(c))
		}
		own := s.matches[captions[0]:][:len(captions)]
		if err := s.exact(own, []int32{int32(i)}, captions); err != nil {
			return err
		}
		s.best[i] = slices.Max(own)
	}
	return nil
}

// differ records the difference between the two scores of a pair.
func (s *settling) differ(exact, first float32) {
	if d := math.Abs(float64(exact) - float64(first)); d > s.largest || d != d {
		s.largest = d // once it is NaN, it stays NaN, and all pairs are near
	}
}

// near reports whether the fp32 score of a pair with bf16 score v may be on the other side of a match.
func (s *settling) near(v float32, image, caption int, bound float64) bool {
	x := float64(v)
	return !(math.Abs(x-float64(s.best[image])) > bound && math.Abs(x-float64(s.matches[caption])) > bound)
}

// put sets a pair to its fp32 score.
func (s *settling) put(image, caption int, score float32) {
	at := image*s.d.Captions + caption
	s.differ(score, s.d.Data[at])
	s.d.Data[at], s.known[at] = score, true
	s.again++
}

// run settles d, which holds bf16 scores. It returns false if too many pairs are near a match.
func (s *settling) run(ctx context.Context) (bool, error) {
	n, m := s.d.Dims()
	s.known = make([]bool, n*m)
	for i := range n {
		for c := range s.own.Of(i) {
			s.put(i, c, s.matches[c])
		}
	}
	scores := make([]float32, settleAtOnce)
	for {
		near, count, bound := make([][]int32, m), 0, settleSlack*s.largest
		for i := range n {
			for c, v := range s.d.Data[i*m : (i+1)*m] {
				if !s.known[i*m+c] && s.near(v, i, c, bound) {
					near[c] = append(near[c], int32(i))
					count++
				}
			}
		}
		if count == 0 || settleCost*(s.again+count) > n*m {
			return count == 0, nil
		}
		for c, images := range near {
			for some := range slices.Chunk(images, settleAtOnce) {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				if err := s.exact(scores[:len(some)], some, []int32{int32(c)}); err != nil {
					return false, err
				}
				for j, i := range some {
					s.put(int(i), c, scores[j])
				}
			}
		}
	}
}

// sample scores tiles of side images from the whole split, and one caption of each, in both precisions. It returns
// false if settling would save nothing, or if the score of a pair depends on the pairs that are scored with it.
func (s *settling) sample(ctx context.Context, side int, first func(dst []float32, images, captions []int32) error) (
	bool, error) {
	n, near := s.own.Images(), 0
	var x, y []float32
	took := [2]time.Duration{math.MaxInt64, math.MaxInt64} // for a tile: the first one compiles graphs
	for t := range settleTiles {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		var images, captions []int32
		for j := range min(side, n) {
			i := (j*settleTiles + t) * n / (side * settleTiles)
			lo := s.own.First(i)
			images = append(images, int32(i))
			captions = append(captions, int32(lo+j%(s.own.First(i+1)-lo)))
		}
		x, y = make([]float32, len(images)*len(captions)), make([]float32, len(images)*len(captions))
		for k, score := range []func([]float32, []int32, []int32) error{s.exact, first} {
			start := s.now()
			if err := score([][]float32{x, y}[k], images, captions); err != nil {
				return false, err
			}
			took[k] = min(took[k], s.now()-start)
		}
		for k, v := range x {
			s.differ(v, y[k])
			if k%(len(captions)+1) == 0 && v != s.matches[captions[k/len(captions)]] {
				return false, nil
			}
		}
		for k, v := range y {
			if k%(len(captions)+1) == 0 {
				continue // a match
			}
			near += b2i(s.near(v, int(images[k/len(captions)]), int(captions[k%len(captions)]), settleSlack*s.largest))
		}
	}
	share := float64(near) / float64(settleTiles*len(x))
	return float64(took[1])+settleCost*share*float64(took[0]) < settleGain*float64(took[0]), nil
}
