package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/models"
)

// usualPairs is the size of the tiles of a PairScorer: what a CPU scores in one run, and the minimum that a GPU scores
// in one run. Work files keep tiles of this size. All tiles but the last have the same shape, so a few graphs serve a
// split. Captions are sorted by length, so the captions of a tile have similar lengths.
func usualPairs() tileSize { return tileSize{64, 64} }

// EncodePairImages encodes every distinct image of a split with a PairScorer, in file order.
func EncodePairImages(ctx context.Context, r *models.PairRunner, s *data.Split, o EncodeOptions) (
	*models.EncodedSet, error) {
	n, images := s.NumImages(), &models.EncodedSet{}
	l, err := data.NewImageLoader(s, o.imageLoader(r.Resident))
	if err != nil {
		return nil, err
	}
	v := divisionOf(r.Model.Instance.Dev)
	err = v.batches(ctx, l, func(b *data.Batch, own bool) error {
		r.Skip = !own
		err := r.AppendImages(images, b.Images, n)
		if o.Progress != nil {
			o.Progress(images.N, n)
		}
		return err
	}, func(items, _ []int32) error { return v.shareLast(images.Values, items) })
	r.Skip = false
	if err != nil {
		return nil, fmt.Errorf("encode images of split %s: %w", s.Name(), err)
	}
	return images, nil
}

// EncodePairCaptions encodes every caption of a split with a PairScorer, sorted by length: caption j of the set is
// caption order[j] of the split.
func EncodePairCaptions(ctx context.Context, r *models.PairRunner, s *data.Split, v text.Tokenizer, o EncodeOptions) (
	captions *models.EncodedSet, order []int32, err error) {
	c := s.NumCaptions()
	captions = &models.EncodedSet{}
	l, err := data.NewCaptionLoader(s, v, data.LengthOrder(s, v), o.loader())
	if err != nil {
		return nil, nil, err
	}
	ranks := divisionOf(r.Model.Instance.Dev)
	err = ranks.batches(ctx, l, func(b *data.Batch, own bool) error {
		r.Skip = !own
		err := r.AppendCaptions(captions, b.Captions, c)
		order = append(order, b.Indices...)
		if o.Progress != nil {
			o.Progress(captions.N, c)
		}
		return err
	}, func(items, words []int32) error {
		return errors.Join(ranks.shareLast(captions.Values, items), ranks.shareLast(captions.Words, words))
	})
	r.Skip = false
	if err != nil {
		return nil, nil, fmt.Errorf("encode captions of split %s: %w", s.Name(), err)
	}
	return captions, order, nil
}

// EncodePairCaption encodes one caption of a split with a PairScorer, and returns the ids of its words.
func EncodePairCaption(ctx context.Context, r *models.PairRunner, s *data.Split, v text.Tokenizer, caption int) (
	set *models.EncodedSet, words []int32, err error) {
	o := EncodeOptions{Batch: 1}
	l, err := data.NewCaptionLoader(s, v, []int32{int32(caption)}, o.loader())
	if err != nil {
		return nil, nil, err
	}
	set = &models.EncodedSet{}
	err = drain(ctx, l, func(b *data.Batch) error {
		words = slices.Clone(b.Words[0])
		return r.AppendCaptions(set, b.Captions, 1)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("encode caption %d of split %s: %w", caption, s.Name(), err)
	}
	return set, words, nil
}

// scorePairs scores a split with a PairScorer, tile by tile.
func scorePairs(ctx context.Context, r *models.PairRunner, s *data.Split, v text.Tokenizer, o EncodeOptions) (Scores,
	error) {
	n, all := s.NumImages(), s.NumImages()+s.NumCaptions()
	images, err := EncodePairImages(ctx, r, s, o.part(0, all))
	if err != nil {
		return nil, err
	}
	captions, order, err := EncodePairCaptions(ctx, r, s, v, o.part(n, all))
	if err != nil {
		return nil, err
	}
	if o.First != nil {
		return settlePairs(ctx, r, images, captions, order, s.Groups(), o)
	}
	return ScorePairs(ctx, r, images, captions, order, o)
}

// ScorePairs scores the results of EncodePairImages and EncodePairCaptions, tile by tile. It reads the options Work,
// WorkSetting, Pairs, Plan and Warn. The ranks of a job divide the tiles. Only rank 0 has the scores; the others return
// nil.
func ScorePairs(ctx context.Context, r *models.PairRunner, images, captions *models.EncodedSet, order []int32,
	o EncodeOptions) (Scores, error) {
	ranks := divisionOf(r.Model.Instance.Dev)
	var d *Dense[float32]
	var err error
	if ranks.rank == 0 {
		if d, err = newDense[float32](images.N, captions.N); err != nil {
			return nil, err
		}
	}
	if o.tile == (tileSize{}) {
		o.tile = usualPairs()
	}
	s := &pairScoring{r: r, images: images, captions: captions, order: order, o: o, into: d, ranks: ranks,
		fileTiles: tiling{images.N, captions.N, o.tile.images, o.tile.captions}}
	if s.plan, err = planPairs(r, images, captions, o.tile); err != nil {
		return nil, err
	}
	if o.Plan != nil && s.plan.Total > 0 {
		o.Plan(s.plan)
	}
	if o.Work != "" && ranks.rank == 0 {
		if s.work, err = openWork(o.Work, o.WorkSetting, r.Model.Options.Network,
			scoreKey(r.Model, images, captions, order), s.fileTiles, s.put); err != nil {
			return nil, err
		}
		defer s.work.close()
		s.kept = s.work.done
	}
	if err := s.agree(); err != nil {
		return nil, err
	}
	if err := s.run(ctx); err != nil || ranks.rank > 0 {
		return nil, err
	}
	return d, nil
}

// settlePairs is ScorePairs in bf16 with o.First, and in fp32 with r for the pairs whose rank may differ (see
// settling).
func settlePairs(ctx context.Context, r *models.PairRunner, images, captions *models.EncodedSet, order []int32,
	own data.Groups, o EncodeOptions) (Scores, error) {
	all := func() (Scores, error) { return ScorePairs(ctx, r, images, captions, order, o) }
	if least, _ := own.Range(); least < 1 || own.Images() != images.N || images.N*captions.N < settleLeast {
		return all()
	}
	at := make([]int32, len(order)) // place of each caption in the set
	for p, c := range order {
		at[c] = int32(p)
	}
	s := &settling{own: own, now: o.ProcessorTime}
	if s.now == nil {
		began := time.Now()
		s.now = func() time.Duration { return time.Since(began) }
	}
	s.exact = func(dst []float32, of, with []int32) error { return scoreSome(r, dst, images, captions, at, of, with) }
	if err := s.scoreMatches(ctx); err != nil {
		return nil, err
	}
	if some, err := s.sample(ctx, usualPairs().images, func(dst []float32, of, with []int32) error {
		return scoreSome(o.First, dst, images, captions, at, of, with)
	}); err != nil || !some {
		if err != nil {
			return nil, err
		}
		return all()
	}
	scores, err := ScorePairs(ctx, o.First, images, captions, order, o)
	if err != nil {
		return nil, err
	}
	s.d = scores.(*Dense[float32])
	switch settled, err := s.run(ctx); {
	case err != nil:
		return nil, err
	case !settled:
		return all()
	}
	if o.Settled != nil {
		o.Settled(Settled{Pairs: len(s.known), Again: s.again, Largest: s.largest, Bound: settleSlack * s.largest})
	}
	return s.d, nil
}

// scoreSome scores some images with some captions of a split: dst [of, with]. at holds the place of each caption in the
// set.
func scoreSome(r *models.PairRunner, dst []float32, images, captions *models.EncodedSet, at []int32, of,
	with []int32) error {
	n, w := len(of), len(with)
	places := make([]int32, w)
	for j, c := range with {
		places[j] = at[c]
	}
	sorted := slices.Sorted(slices.Values(places)) // by length
	for w == 1 && len(of)%settleUnit != 0 {
		of = append(of[:len(of):len(of)], of[0])
	}
	text := captions.Pick(sorted)
	scores := make([]float32, len(of)*w)
	capacity := w * models.Bucket(int(text.Length[0]))
	if err := r.Score(scores, images.Pick(of), 0, len(of), text, 0, w, capacity); err != nil {
		return err
	}
	for j, p := range places {
		column, _ := slices.BinarySearch(sorted, p)
		for i := range n {
			dst[i*w+j] = scores[i*w+column]
		}
	}
	return nil
}
