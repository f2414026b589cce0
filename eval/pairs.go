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
// Variables for the test that other sizes change nothing.
var pairImages, pairCaptions = 64, 64

// EncodePairs encodes every distinct image and every caption of a split with a PairScorer: images in file order, captions in the
// order of their lengths; caption j of the set is order[j] of the split.
func EncodePairs(ctx context.Context, m *models.Model, s *data.Split, v text.Lexicon, o EncodeOptions) (images, captions *models.EncodedSet, order []int32, err error) {
	n, c := s.NumImages(), s.NumCaptions()
	images, captions = &models.EncodedSet{}, &models.EncodedSet{}
	report := func(done int) {
		if o.Progress != nil {
			o.Progress(done, n+c)
		}
	}
	lo := o.loader()
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
func scorePairs(ctx context.Context, m *models.Model, s *data.Split, v text.Lexicon, o EncodeOptions) (Scores, error) {
	images, captions, order, err := EncodePairs(ctx, m, s, v, o)
	if err != nil {
		return nil, err
	}
	return ScorePairs(ctx, m, images, captions, order, o)
}

// ScorePairs scores what EncodePairs has encoded, tile by tile. Of the options it reads Work and Pairs.
func ScorePairs(ctx context.Context, m *models.Model, images, captions *models.EncodedSet, order []int32, o EncodeOptions) (Scores, error) {
	t := tiling{images.N, captions.N, pairImages, pairCaptions}
	d, err := NewDense[float32](t.images, t.captions)
	if err != nil {
		return nil, err
	}
	put := func(tile int, scores []float32) {
		i0, i1, c0, c1 := t.tile(tile)
		for i := i0; i < i1; i++ {
			for j, caption := range order[c0:c1] {
				d.Data[i*t.captions+int(caption)] = scores[(i-i0)*(c1-c0)+j]
			}
		}
	}
	var work *workFile
	if o.Work != "" {
		if work, err = openWork(o.Work, m.Network.Name(), scoreKey(m, images, captions, order), t, put); err != nil {
			return nil, err
		}
		defer work.close()
	}
	room := 0
	for c := 0; c < t.captions; c += t.tileC {
		room = max(room, captions.First[min(t.captions, c+t.tileC)]-captions.First[c])
	}
	out, done := make([]float32, t.tileI*t.tileC), 0
	report := func() {
		if o.Pairs != nil {
			o.Pairs(done, t.images*t.captions)
		}
	}
	if work != nil {
		for tile := range work.done {
			i0, i1, c0, c1 := t.tile(tile)
			done += (i1 - i0) * (c1 - c0)
		}
	}
	report()
	for tile := range t.count() {
		i0, i1, c0, c1 := t.tile(tile)
		if work != nil && work.done[tile] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		scores := out[:(i1-i0)*(c1-c0)]
		if err := m.ScorePairs(scores, images, i0, i1, captions, c0, c1, room); err != nil {
			return nil, err
		}
		put(tile, scores)
		if work != nil {
			if err := work.add(tile, scores); err != nil {
				return nil, err
			}
		}
		done += len(scores)
		report()
	}
	return d, nil
}
