package eval

import (
	"context"
	"fmt"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/models"
)

// Tiles of a PairScorer: images x captions scored in one run. All but those at the edges have one shape, so few graphs serve a
// split. Captions are in the order of their length, so that the captions of a tile differ little.
const pairImages, pairCaptions = 64, 64

// EncodePairs encodes every distinct image and every caption of a split with a PairScorer: images in file order, captions in the
// order of their lengths; caption j of the set is order[j] of the split.
func EncodePairs(ctx context.Context, m *models.Model, s *data.Split, v *text.Vocabulary, o EncodeOptions) (images, captions *models.EncodedSet, order []int32, err error) {
	if o.Batch == 0 {
		o.Batch = 128
	}
	n, c := s.NumImages(), s.NumCaptions()
	images, captions = &models.EncodedSet{}, &models.EncodedSet{}
	report := func(done int) {
		if o.Progress != nil {
			o.Progress(done, n+c)
		}
	}
	lo := data.LoaderOptions{Batch: o.Batch, Workers: o.Workers}
	il, err := data.NewImageLoader(s, lo)
	if err != nil {
		return nil, nil, nil, err
	}
	err = drain(ctx, il, func(b *data.Batch) error {
		err := m.AppendImages(images, b.Images, b.Boxes, b.N, n)
		report(images.N)
		return err
	})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode images of split %s: %w", s.Name(), err)
	}
	cl, err := data.NewCaptionLoader(s, v, data.LengthOrder(s, v), lo)
	if err != nil {
		return nil, nil, nil, err
	}
	err = drain(ctx, cl, func(b *data.Batch) error {
		err := m.AppendCaptions(captions, b.Words, b.Lengths, b.N, b.L, c)
		captions.AppendEdges(b.Edges, b.EdgeStart)
		order = append(order, b.Captions...)
		report(n + captions.N)
		return err
	})
	if err != nil {
		return nil, nil, nil, fmt.Errorf("encode captions of split %s: %w", s.Name(), err)
	}
	return images, captions, order, nil
}

// scorePairs scores a split with a PairScorer, tile by tile.
func scorePairs(ctx context.Context, m *models.Model, s *data.Split, v *text.Vocabulary, o EncodeOptions) (Scores, error) {
	images, captions, order, err := EncodePairs(ctx, m, s, v, o)
	if err != nil {
		return nil, err
	}
	n, c := images.N, captions.N
	d, err := NewDense[float32](n, c)
	if err != nil {
		return nil, err
	}
	room := 0
	for j := 0; j < c; j += pairCaptions {
		room = max(room, captions.First[min(c, j+pairCaptions)]-captions.First[j])
	}
	out := make([]float32, pairImages*pairCaptions)
	for i0 := 0; i0 < n; i0 += pairImages {
		i1 := min(n, i0+pairImages)
		for c0 := 0; c0 < c; c0 += pairCaptions {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			c1 := min(c, c0+pairCaptions)
			w := c1 - c0
			if err := m.ScorePairs(out[:(i1-i0)*w], images, i0, i1, captions, c0, c1, room); err != nil {
				return nil, err
			}
			for i := i0; i < i1; i++ {
				for j, caption := range order[c0:c1] {
					d.Data[i*c+int(caption)] = out[(i-i0)*w+j]
				}
			}
			if o.Pairs != nil {
				o.Pairs(i0*c+(i1-i0)*c1, n*c)
			}
		}
	}
	return d, nil
}
