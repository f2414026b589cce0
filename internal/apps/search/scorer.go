package search

import (
	"context"
	"slices"

	"vsetrain/eval"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/safetensors"
	"vsetrain/models"
)

// scorer is a network that looks at every pair: SAF, SGR, GSMN.
type scorer struct {
	*encoder
	images   side[*models.EncodedSet] // in the order of the split
	captions side[*orderedCaptions]
}

// orderedCaptions are encoded captions in the order of their lengths.
type orderedCaptions struct {
	*models.EncodedSet
	order    []int32 // caption of the split at each position of the set
	position []int32 // its inverse
	capacity int     // words of the longest tileCaptions captions
}

// Sides of a tile of pairs, which the network scores in one run.
const tileImages, tileCaptions = 64, 64

func (s *scorer) imageSet(ctx context.Context) (*models.EncodedSet, error) {
	return s.images.get(s.encoder, func() (set *models.EncodedSet, err error) {
		err = s.cached(ctx, imageSide, func() ([]safetensors.Tensor, error) {
			set, err = eval.EncodePairImages(ctx, s.Runner.Pairs, s.Split, s.options(imageSide))
			if err != nil || s.opt.Cache == "" {
				return nil, err
			}
			return packSet("image", set), nil
		}, func(f *safetensors.File) (err error) {
			set, err = unpackSet(f, "image", s.Split.NumImages())
			return err
		})
		return set, err
	})
}

func (s *scorer) captionSet(ctx context.Context) (*orderedCaptions, error) {
	return s.captions.get(s.encoder, func() (*orderedCaptions, error) {
		c := &orderedCaptions{}
		err := s.cached(ctx, captionSide, func() (t []safetensors.Tensor, err error) {
			c.EncodedSet, c.order, err = eval.EncodePairCaptions(ctx, s.Runner.Pairs, s.Split, s.Tokenizer,
				s.options(captionSide))
			if err != nil || s.opt.Cache == "" {
				return nil, err
			}
			return append(packSet("caption", c.EncodedSet), ints("order", c.order)), nil
		}, func(f *safetensors.File) (err error) {
			if c.EncodedSet, err = unpackSet(f, "caption", s.Split.NumCaptions()); err != nil {
				return err
			}
			c.order, err = f.Int32s("order")
			return err
		})
		if err != nil {
			return nil, err
		}
		c.position = make([]int32, len(c.order))
		for at, caption := range c.order {
			c.position[caption] = int32(at)
		}
		for i := 0; i < c.N; i += tileCaptions {
			c.capacity = max(c.capacity, c.First[min(c.N, i+tileCaptions)]-c.First[i])
		}
		return c, nil
	})
}

func (s *scorer) prepare(ctx context.Context, q Queries) (err error) {
	if q&TextQueries != 0 {
		_, err = s.imageSet(ctx)
	}
	if err == nil && q&ImageQueries != 0 {
		_, err = s.captionSet(ctx)
	}
	return err
}

func (s *scorer) score(ctx context.Context, dst []float64, q *probe, of []int32) error {
	if q.forImages() {
		return s.scoreImages(ctx, dst, q, of)
	}
	all, err := s.captionSet(ctx)
	if err != nil {
		return err
	}
	if images, ready := s.images.made(); ready && q.picture == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.withImage(ctx, dst, images, q.number, all, of)
	}
	p := q.picture
	if p == nil { // the other images need not be encoded
		image, err := s.readImage(q.number)
		if err != nil {
			return err
		}
		p = &image
	}
	b, err := s.batch(*p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	images := &models.EncodedSet{}
	if err := s.Runner.Pairs.AppendImages(images, b, 1); err != nil {
		return err
	}
	return s.withImage(ctx, dst, images, 0, all, of)
}

func (s *scorer) scoreImages(ctx context.Context, dst []float64, q *probe, of []int32) error {
	images, err := s.imageSet(ctx)
	if err != nil {
		return err
	}
	var captions *orderedCaptions
	if q.caption {
		if captions, err = s.captionSet(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.caption {
		return s.withCaption(ctx, dst, images, captions.Pick(captions.position[q.number:q.number+1]), of)
	}
	typed := &models.EncodedSet{}
	if err := s.Runner.Pairs.AppendCaptions(typed, query(q.words[s.encoder]), 1); err != nil {
		return err
	}
	return s.withCaption(ctx, dst, images, typed, of)
}

func (s *scorer) withCaption(ctx context.Context, dst []float64, images, q *models.EncodedSet, of []int32) error {
	if of != nil {
		images = images.Pick(of)
	}
	capacity := models.Bucket(int(q.Length[0]))
	out := make([]float32, tileImages)
	for lo := 0; lo < len(dst); lo += tileImages {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(len(dst), lo+tileImages)
		if err := s.Runner.Pairs.Score(out[:hi-lo], images, lo, hi, q, 0, 1, capacity); err != nil {
			return err
		}
		for j, v := range out[:hi-lo] {
			dst[lo+j] = float64(v)
		}
	}
	return nil
}

func (s *scorer) withImage(ctx context.Context, dst []float64, images *models.EncodedSet, i int, all *orderedCaptions,
	of []int32) error {
	captions, to, capacity := all.EncodedSet, all.order, all.capacity // to: index in dst
	if of != nil {
		positions := make([]int32, len(of))
		at := make(map[int32]int32, len(of))
		for j, c := range of {
			positions[j], at[all.position[c]] = all.position[c], int32(j)
		}
		slices.Sort(positions) // the set is in the order of lengths
		captions, to = captions.Pick(positions), make([]int32, len(of))
		for j, p := range positions {
			to[j] = at[p]
		}
		capacity = min(tileCaptions, len(of)) * models.Bucket(int(captions.Length[0]))
	}
	out := make([]float32, tileCaptions)
	for lo := 0; lo < len(dst); lo += tileCaptions {
		if err := ctx.Err(); err != nil {
			return err
		}
		hi := min(len(dst), lo+tileCaptions)
		if err := s.Runner.Pairs.Score(out[:hi-lo], images, i, i+1, captions, lo, hi, capacity); err != nil {
			return err
		}
		for j, v := range out[:hi-lo] {
			dst[to[lo+j]] = float64(v)
		}
	}
	return nil
}

func (s *scorer) all(ctx context.Context, _ *par.Pool) (eval.Scores, error) {
	images, err := s.imageSet(ctx)
	if err != nil {
		return nil, err
	}
	captions, err := s.captionSet(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return eval.ScorePairs(ctx, s.Runner.Pairs, images, captions.EncodedSet, captions.order, s.options(""))
}
