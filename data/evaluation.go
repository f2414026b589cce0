package data

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"vsetrain/data/text"
)

// Validation and test encode each distinct image once and every caption once, with an ImageLoader and a CaptionLoader
// over the same split. Batch.ImageIndices and Batch.Indices say where the embeddings belong, so the order and size of
// the batches do not matter.

// NewImageLoader returns a loader that delivers each distinct image of the split once, in order. The caption fields of
// its batches are empty. It uses the options Batch, Workers, Prefetch, Fields and Boxes.
func NewImageLoader(s *Split, o LoaderOptions) (*Loader, error) {
	if o.Boxes != nil && !o.has(FieldBoxes) {
		return nil, errors.New("data: stored boxes are divided by the loader and need FieldBoxes: they cannot stay " +
			"in device memory")
	}
	if o.Boxes != nil && s.SharedBoxes() && o.Boxes.Batch < 1 {
		return nil, fmt.Errorf("%s: float32 boxes depend on the batch of the evaluation; expected at least 1, found %d",
			s.boxes.path, o.Boxes.Batch)
	}
	if err := Need(s, true, false); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	return newPass(s, nil, upTo(s.NumImages()), true, o)
}

// NewCaptionLoader returns a loader that delivers the given captions of the split once, without images, sorted by
// length within each batch. A nil order is all captions in file order; LengthOrder needs the least padding. It uses the
// options Batch, Workers and Prefetch.
func NewCaptionLoader(s *Split, v text.Tokenizer, order []int32, o LoaderOptions) (*Loader, error) {
	if v == nil {
		return nil, errors.New("data: a loader of captions needs a vocabulary")
	}
	if err := errors.Join(Need(s, false, true), s.fits(v)); err != nil {
		return nil, err
	}
	if order == nil {
		order = upTo(s.NumCaptions())
	}
	for _, c := range order {
		if c < 0 || int(c) >= s.NumCaptions() {
			return nil, fmt.Errorf("data: caption %d of %d", c, s.NumCaptions())
		}
	}
	return newPass(s, v, order, false, o)
}

// newPass delivers consecutive pieces of order, once.
func newPass(s *Split, v text.Tokenizer, order []int32, images bool, o LoaderOptions) (*Loader, error) {
	o.Epochs, o.StartEpoch, o.StartIter, o.Stages = 1, 0, 0, nil
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	o.Fields = slices.DeleteFunc(slices.Clone(o.Fields), func(f Field) bool {
		return f == FieldAugmentation || f == FieldDecayedBoxes
	})
	if len(order) == 0 {
		return nil, errors.New("data: nothing to load")
	}
	items := func(_, i int) []int32 { return order[i*o.Batch : min((i+1)*o.Batch, len(order))] }
	l := &Loader{split: s, vocab: v, opts: o, batches: (len(order) + o.Batch - 1) / o.Batch, items: items,
		images: images}
	return l.start()
}

// LengthOrder returns the captions of the split ordered by number of ids, longest first, ties in file order.
func LengthOrder(s *Split, v text.Tokenizer) []int32 {
	c := v.NewEncoder()
	var to, ids []int32
	order, length := upTo(s.NumCaptions()), make([]int, s.NumCaptions())
	for i := range length {
		to, ids, _, _ = s.wordsOf(to[:0], c, i)
		length[i] = len(ids)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return length[b] - length[a] })
	return order
}

// CaptionIDs returns the word ids of all captions, concatenated. The ids of caption c are ids[starts[c]:starts[c+1]].
func CaptionIDs(s *Split, v text.Tokenizer) (ids, starts []int32, err error) {
	if err := errors.Join(Need(s, false, true), s.fits(v)); err != nil {
		return nil, nil, err
	}
	c := v.NewEncoder()
	var to, words []int32
	starts = make([]int32, 1, s.NumCaptions()+1)
	for i := range s.NumCaptions() {
		to, words, _, _ = s.wordsOf(to[:0], c, i)
		if ids = append(ids, words...); len(ids) > math.MaxInt32 {
			return nil, nil, fmt.Errorf("data: split %s has more than 2^31 words", s.name)
		}
		starts = append(starts, int32(len(ids)))
	}
	return ids, starts, nil
}
