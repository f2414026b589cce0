package search

import (
	"context"
	"slices"

	"vsetrain/eval"
	"vsetrain/internal/safetensors"
	"vsetrain/models"
)

// scorer is a network that looks at every pair: SAF, SGR, GSMN.
type scorer struct {
	*encoder
	images, captions *models.EncodedSet // images in the order of the split, captions in that of their lengths
	order            []int32            // caption of the split at each place of captions
	place            []int32            // its inverse
	room             int                // words of the longest tileCaptions captions
}

// Tiles: pairs that are scored in one run of the network.
const tileImages, tileCaptions = 64, 64

func newScorer(ctx context.Context, e *encoder) (*scorer, error) {
	s := &scorer{encoder: e}
	err := e.cached(ctx, func() (t []safetensors.Tensor, err error) {
		s.images, s.captions, s.order, err = eval.EncodePairs(ctx, e.Model, e.Split, e.Lexicon, e.options())
		if err != nil || e.opt.Cache == "" {
			return nil, err
		}
		t = append(packSet("image", s.images), packSet("caption", s.captions)...)
		return append(t, ints("order", s.order)), nil
	}, func(f *safetensors.File) (err error) {
		if s.images, err = unpackSet(f, "image", e.Split.NumImages()); err != nil {
			return err
		}
		if s.captions, err = unpackSet(f, "caption", e.Split.NumCaptions()); err != nil {
			return err
		}
		s.order, err = int32s(f, "order")
		return err
	})
	if err != nil {
		return nil, err
	}
	s.place = make([]int32, len(s.order))
	for at, c := range s.order {
		s.place[c] = int32(at)
	}
	for c := 0; c < s.captions.N; c += tileCaptions {
		s.room = max(s.room, s.captions.First[min(s.captions.N, c+tileCaptions)]-s.captions.First[c])
	}
	return s, nil
}

func (s *scorer) text(ctx context.Context, dst []float64, words, of []int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &models.EncodedSet{}
	if err := s.Model.AppendCaptions(q, words, []int32{int32(len(words))}, 1, len(words), 1); err != nil {
		return err
	}
	return s.withCaption(ctx, dst, q, of)
}

func (s *scorer) caption(ctx context.Context, dst []float64, c int, of []int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withCaption(ctx, dst, s.captions.Pick(s.place[c:c+1]), of)
}

// withCaption scores images with a set of one caption.
func (s *scorer) withCaption(ctx context.Context, dst []float64, q *models.EncodedSet, of []int32) error {
	images := s.images
	if of != nil {
		images = images.Pick(of)
	}
	room := models.Bucket(int(q.Length[0]))
	out := make([]float32, tileImages)
	for lo := 0; lo < len(dst); lo += tileImages {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(len(dst), lo+tileImages)
		if err := s.Model.ScorePairs(out[:hi-lo], images, lo, hi, q, 0, 1, room); err != nil {
			return err
		}
		for j, v := range out[:hi-lo] {
			dst[lo+j] = float64(v)
		}
	}
	return nil
}

func (s *scorer) image(ctx context.Context, dst []float64, i int, of []int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	captions, to, room := s.captions, s.order, s.room // to: place in dst
	if of != nil {
		places := make([]int32, len(of))
		at := make(map[int32]int32, len(of))
		for j, c := range of {
			places[j], at[s.place[c]] = s.place[c], int32(j)
		}
		slices.Sort(places) // the set is in the order of lengths
		captions, to = s.captions.Pick(places), make([]int32, len(of))
		for j, p := range places {
			to[j] = at[p]
		}
		room = min(tileCaptions, len(of)) * models.Bucket(int(captions.Length[0]))
	}
	out := make([]float32, tileCaptions)
	for lo := 0; lo < len(dst); lo += tileCaptions {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(len(dst), lo+tileCaptions)
		if err := s.Model.ScorePairs(out[:hi-lo], s.images, i, i+1, captions, lo, hi, room); err != nil {
			return err
		}
		for j, v := range out[:hi-lo] {
			dst[to[lo+j]] = float64(v)
		}
	}
	return nil
}

func (s *scorer) all(ctx context.Context) (eval.Scores, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return eval.ScorePairs(ctx, s.Model, s.images, s.captions, s.order, s.options())
}
