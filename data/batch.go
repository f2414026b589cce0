package data

import "time"

// Batch is one mini-batch of N image-caption pairs. Its slices belong to the Loader that delivered it and are
// valid until Release.
//
// In training batches image i and caption i are a pair; pairs are sorted by caption length, longest first, ties in
// sampling order, unless the loader was told not to. An ImageLoader leaves the caption fields empty, a
// CaptionLoader the image fields.
type Batch struct {
	Epoch, Iter int // position in the run: iteration Iter of epoch Epoch, both from 0

	N       int // pairs in the batch
	L       int // longest caption, in words, <start> and <end> included
	Regions int // R
	Dim     int // D

	// Images is [N, R, D], or with size augmentation [Σ RegionCounts, D]: the regions kept of image 0, then of image 1,
	// and so on. It is empty if the loader was not asked for FieldFeatures.
	Images []float32
	// Stage holds the features in place of Images where the loader has LoaderOptions.Stages; nil without.
	Stage        Stage
	RegionCounts []int32 // [N] regions kept of each image; nil without size augmentation: all R
	// RegionRows [Σ RegionCounts] are the regions kept, as rows of the feature file taken as one list of regions, with
	// size augmentation and without FieldFeatures.
	RegionRows []int32

	ImageRows []int32 // [N] row of the feature file
	ImageIDs  []int32 // [N] image identity 0..NumImages-1: equal for captions of one image
	Words     []int32 // [Σ Lengths] word ids of caption 0, then those of caption 1, and so on
	Lengths   []int32 // [N] words of each caption
	Captions  []int32 // [N] caption index in the file

	// [N, R, 4] places of the regions, as shares of the picture; empty when the split was opened without
	Boxes []float32
	// Edges are the dependencies of the captions: caption i of the batch has the pairs
	// Edges[2·EdgeStart[i]:2·EdgeStart[i+1]], governor and dependent in turn, as positions in the caption. Pairs that
	// reach behind the caption are left out. Both are empty when the split was opened without.
	Edges, EdgeStart []int32

	SemanticDim int       // k, 0 when the split has no semantic vectors
	Semantics   []float32 // [N, k] semantic vectors of the captions

	Wait time.Duration // time that Next spent waiting for this batch

	words, unknown, unknownOnly int // see LoaderStats
	err                         error
}

// WordsOf returns the ids of caption i.
func (b *Batch) WordsOf(i int) []int32 {
	at := 0
	for _, n := range b.Lengths[:i] {
		at += int(n)
	}
	return b.Words[at : at+int(b.Lengths[i])]
}

// Stage is memory for the features of a batch that somebody else reads too, such as a device (device.Stage).
type Stage interface {
	Floats() []float32 // nil of float16
	Halves() []uint16  // bits of float16; nil of float32
}

// resize returns s with length n, reusing its memory where it can.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
