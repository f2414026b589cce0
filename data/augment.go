package data

import (
	"vsetrain/data/text"
	"vsetrain/internal/compute/philox"
)

// augmenter draws the size augmentation of VSE-infinity (woodfrog/vse_infty, lib/datasets/image_caption.py: __getitem__
// and process_caption). Every caption of an epoch has its own draws, a function of (seed, epoch, caption), so that
// neither the batch nor the worker it meets matters; the reference's workers repeat the same draws every epoch (quirk
// Q15).
type augmenter struct {
	words, regions philox.Key
	stream         philox.Stream
	kept           []int32
}

func newAugmenter(seed uint64) *augmenter {
	return &augmenter{words: philox.NewKey(seed, "augment/words"), regions: philox.NewKey(seed, "augment/regions")}
}

// begin starts the draws of a caption.
func (a *augmenter) begin(k philox.Key, epoch int, caption int32) {
	a.stream = *k.Stream(uint64(epoch)<<32 | uint64(uint32(caption)))
}

// wordDraws returns the draws for the words of a caption, valid until the next call.
func (a *augmenter) wordDraws(epoch int, caption int32) text.RandomSource {
	a.begin(a.words, epoch, caption)
	return &a.stream
}

// keepRows moves rows of x [R, dim], in ascending order, to its front and returns their number.
func keepRows[T any](x []T, rows []int32, dim int) int {
	for i, r := range rows {
		copy(x[i*dim:(i+1)*dim], x[int(r)*dim:(int(r)+1)*dim])
	}
	return len(rows)
}

// keptRegions draws the regions that are kept, in order; valid until the next call.
func (a *augmenter) keptRegions(regions, epoch int, caption int32) []int32 {
	a.begin(a.regions, epoch, caption)
	a.kept = text.KeepRegions(a.kept[:0], regions, &a.stream)
	return a.kept
}
