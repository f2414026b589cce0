package eval

import (
	"context"
	"math"
	"slices"
	"time"

	"vsetrain/data"
)

// Ranks of pairs that are scored in bf16 first. A rank counts the candidates above a match, so all ranks of image i
// follow from how its captions compare with the best of its own, and those of caption c from how the images compare
// with its own. The matches are scored in fp32. Of any other pair a score in bf16 decides where it is further from both
// matches than a bound, and the score in fp32 where it is not. Ranks, recalls and ties are those of fp32 then, in folds
// too; the order of pairs that are no matches is not.
//
// The bound is measured, not proven: settleSlack times the largest difference between the two scores of a pair among
// all pairs that were scored in both, which are the matches, tiles from all over the split and the pairs near a match.
// It grows until no pair that is nearer than that has its score in bf16 alone. All pairs are scored in fp32 where the
// tiles tell that this saves nothing: too many pairs are near a match, as at the start of a training, or bf16 is not
// much faster.
const (
	settleSlack  = 8
	settleTiles  = 4       // scored in both before all others
	settleLeast  = 1 << 18 // with fewer pairs in all, this saves nothing
	settleAtOnce = 64      // images that are scored with a caption
	settleUnit   = 8       // they are filled up to a multiple of this, so that graphs are few
	settleCost   = 2       // of a pair near a match, in pairs of a tile
	settleGain   = 0.8     // of the time of all pairs in fp32, which this may take at most
)

// Settled says how the ranks of a network that scores pairs were settled.
type Settled struct {
	Pairs   int     `json:"pairs"`
	Again   int     `json:"again"`   // of them, scored in fp32
	Largest float64 `json:"largest"` // difference between bf16 and fp32 among those
	Bound   float64 `json:"bound"`   // of the others, assumed
}

// settling turns scores in bf16 into scores with the ranks of fp32.
type settling struct {
	d       *Dense[float32]
	own     data.Groups
	matches []float32 // [M] in fp32
	best    []float32 // [N] the largest of each image
	known   []bool    // pairs of d in fp32
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

// differ takes note of the two scores of a pair.
func (s *settling) differ(exact, first float32) {
	if d := math.Abs(float64(exact) - float64(first)); d > s.largest || d != d {
		s.largest = d // NaN stays, and leaves no pair undecided by bf16
	}
}

// near reports whether a score in bf16 may compare otherwise with a match than that in fp32.
func (s *settling) near(v float32, image, caption int, bound float64) bool {
	x := float64(v)
	return !(math.Abs(x-float64(s.best[image])) > bound && math.Abs(x-float64(s.matches[caption])) > bound)
}

// put sets a pair to its score in fp32.
func (s *settling) put(image, caption int, score float32) {
	at := image*s.d.Captions + caption
	s.differ(score, s.d.Data[at])
	s.d.Data[at], s.known[at] = score, true
	s.again++
}

// run settles d, whose scores are in bf16. It returns false where too many pairs are near a match.
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

// sample scores tiles of so many images from all over the split, and of a caption of each, in both precisions. It
// returns false where bf16 first would save nothing, or where the score of a pair depends on what is scored with it.
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
