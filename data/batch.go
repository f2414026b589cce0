package data

import (
	"time"

	"vsetrain/batch"
)

// Batch is one mini-batch of N image-caption pairs. Its slices belong to the Loader that delivered it and are valid
// until Release.
//
// In training batches image i and caption i are a pair; pairs are sorted by caption length, longest first, ties in
// sampling order. An ImageLoader leaves the caption fields empty, a CaptionLoader the image fields.
type Batch struct {
	Epoch, Iter int // position in the run: iteration Iter of epoch Epoch, both from 0
	Full        int // pairs of a full batch of all ranks (LoaderOptions.Batch); the last one of an epoch may have fewer

	L       int // longest caption, in words, <start> and <end> included
	Regions int // R
	Dim     int // D

	// Images has one image for each pair. Counts is nil if all images have R regions. Without FieldFeatures, Features
	// is empty and RegionRows are set. Stage is set if LoaderOptions.Stages is. Boxes are empty if the split was opened
	// without boxes.
	batch.Images
	// Captions are in the order of the images. With several ranks (LoaderOptions.Ranks), a batch has the images of its
	// rank, pairs Rank, Rank+Ranks, Rank+2·Ranks and so on, but the captions, ImageIndices and Semantics of all ranks.
	// Edges to words beyond the end of a caption are left out. Edges are empty if the split was opened without
	// dependencies.
	batch.Captions

	ImageIndices []int32 // [N] image identity 0..NumImages-1: equal for captions of one image

	SemanticDim int       // k, 0 when the split has no semantic vectors
	Semantics   []float32 // [N, k] semantic vectors of the captions

	Wait time.Duration // time that Next spent waiting for this batch

	// Rank is the rank of the images, from 0 to Ranks-1. 0 ranks are one.
	Rank, Ranks int

	ids []int32 // of captions whose ids the split does not store
	err error
}

// Pairs returns the number of pairs of all ranks.
func (b *Batch) Pairs() int {
	if b.Ranks > 1 {
		return len(b.Lengths)
	}
	return b.N
}

// pair returns the position of image i among the pairs.
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
