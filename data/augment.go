package data

import (
	"vsetrain/data/text"
	"vsetrain/internal/philox"
)

// augmenter draws the size augmentation of VSE-infinity (specification, models.md §5.1, data.md §5). Every caption of an epoch has
// draws of its own, a function of (seed, epoch, caption), so that neither the batch nor the worker it meets matters; the
// reference's workers repeat the same draws every epoch (quirk T5).
type augmenter struct {
	words, regions philox.Key
	vocab          int // V; the id of <mask>
	stream         philox.Stream
	draw           text.Draw
	random         func() int32
	ids, kept      []int32
}

func newAugmenter(seed uint64, vocab int) *augmenter {
	a := &augmenter{words: philox.NewKey(seed, "augment/words"), regions: philox.NewKey(seed, "augment/regions"), vocab: vocab}
	a.draw = func() float64 { return a.stream.Float64() }
	a.random = func() int32 { return int32(a.stream.IntN(vocab + 1)) } // <mask> included, as in the reference
	return a
}

// begin starts the draws of a caption.
func (a *augmenter) begin(k philox.Key, epoch int, caption int32) {
	a.stream = *k.Stream(uint64(epoch)<<32 | uint64(uint32(caption)))
}

// appendWords appends the augmented ids of a caption to dst; some are masked, replaced or dropped, at least one stays.
func (a *augmenter) appendWords(dst, ids []int32, epoch int, caption int32) []int32 {
	a.begin(a.words, epoch, caption)
	return text.AugmentIDs(dst, ids, int32(a.vocab), a.draw, a.random)
}

// keepRegions moves the regions [R, D] that are kept to the front of x, in order, and returns their number, at least one.
func (a *augmenter) keepRegions(x []float32, regions, dim, epoch int, caption int32) int {
	a.begin(a.regions, epoch, caption)
	a.kept = text.KeepRegions(a.kept[:0], regions, a.draw)
	for i, r := range a.kept {
		copy(x[i*dim:(i+1)*dim], x[int(r)*dim:(int(r)+1)*dim])
	}
	return len(a.kept)
}
