package data

import (
	"fmt"
	"slices"
	"testing"
)

// What stays where it is used is left out of batches, which are otherwise the same; the ids of all captions are the
// same as in the batches.
func TestBatchesWithoutWhatStaysInPlace(t *testing.T) {
	w := newWorld(t, 6, 5, false, "train")
	w.boxes(t)
	vectors := make([]float32, 30*2)
	for i := range vectors {
		vectors[i] = float32(i)
	}
	w.array(t, "train_svd.npy", []int{30, 2}, vectors)
	s, v := w.open(t, "train", OpenOptions{Boxes: true, Semantics: w.path("train_svd.npy")}), vocab(t)
	ids, starts, err := CaptionIDs(s, v)
	if err != nil || len(starts) != 31 || int(starts[30]) != len(ids) {
		t.Fatalf("%d starts, %v", len(starts), err)
	}
	o := LoaderOptions{Batch: 4, Seed: 3, Shuffle: true, Epochs: 1}
	say := func(b *Batch) string { return fmt.Sprint(b.Indices, b.Words, b.FeatureRows) }
	var all []string
	for b := range batchesOf(NewLoader(s, v, o))(t) {
		if len(b.Boxes) != b.N*12 || len(b.Semantics) != b.N*2 {
			t.Fatalf("%d values of boxes and %d of vectors for %d pairs", len(b.Boxes), len(b.Semantics), b.N)
		}
		for i, c := range b.Indices {
			if got := b.Words[i]; !slices.Equal(got, ids[starts[c]:starts[c+1]]) {
				t.Errorf("caption %d: %v, all ids have %v", c, got, ids[starts[c]:starts[c+1]])
			}
		}
		all = append(all, say(b))
	}
	o.Fields = []Field{}
	at := 0
	for b := range batchesOf(NewLoader(s, v, o))(t) {
		if len(b.Boxes)+len(b.Semantics)+len(b.Features) != 0 || b.SemanticDim != 2 {
			t.Errorf("%d values of boxes, %d of vectors of %d, %d of images", len(b.Boxes), len(b.Semantics),
				b.SemanticDim, len(b.Features))
		}
		if say(b) != all[at] {
			t.Errorf("batch %d is %s, want %s", at, say(b), all[at])
		}
		at++
	}
	if at != len(all) {
		t.Errorf("%d batches, expected %d", at, len(all))
	}
}
