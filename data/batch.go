package data

import (
	"time"

	"vsetrain/batch"
)

// Batch is one mini-batch of N image-caption pairs. Its slices belong to the Loader that delivered it and are
// valid until Release.
//
// In training batches image i and caption i are a pair; pairs are sorted by caption length, longest first, ties in
// sampling order, unless the loader was told not to. An ImageLoader leaves the caption fields empty, a
// CaptionLoader the image fields.
type Batch struct {
	Epoch, Iter int // position in the run: iteration Iter of epoch Epoch, both from 0
	Full        int // pairs of a full batch of all ranks (LoaderOptions.Batch); the last one of an epoch may have fewer

	L       int // longest caption, in words, <start> and <end> included
	Regions int // R
	Dim     int // D

	// Images has as many images as there are pairs. Counts are there with size augmentation alone. Features is empty if
	// the loader was not asked for FieldFeatures, and RegionRows are there without them. Stage is used where the loader
	// has LoaderOptions.Stages. Boxes are empty when the split was opened without.
	batch.Images
	// Captions are in the order of the images. A loader of one of several ranks (LoaderOptions.Ranks) brings the images
	// of that rank, every so manieth one, and the captions, ImageIndices and Semantics of all ranks. Edges that reach
	// after a caption are left out; they are empty when the split was opened without.
	batch.Captions

	ImageIndices []int32 // [N] image identity 0..NumImages-1: equal for captions of one image

	SemanticDim int       // k, 0 when the split has no semantic vectors
	Semantics   []float32 // [N, k] semantic vectors of the captions

	Wait time.Duration // time that Next spent waiting for this batch

	// Rank is the rank of the images, of that many; 0 ranks are one.
	Rank, Ranks int

	ids                         []int32 // of the captions, but for those that a split stores
	words, unknown, unknownOnly int     // see LoaderStats
	err                         error
}

// Pairs is the number of pairs of all ranks.
func (b *Batch) Pairs() int {
	if b.Ranks > 1 {
		return len(b.Lengths)
	}
	return b.N
}

// pair is the position of image i among the pairs.
func (b *Batch) pair(i int) int {
	if b.Ranks > 1 {
		return b.Rank + i*b.Ranks
	}
	return i
}

// upTo returns 0, 1, …, n-1.
func upTo(n int) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// resize returns s with length n, reusing its memory where it can.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
