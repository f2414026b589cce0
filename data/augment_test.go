package data

import (
	"fmt"
	"slices"
	"testing"

	"vsetrain/data/text"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
)

// pairs drains an epoch and returns what augmentation did to each caption: its words and the features that are left.
func pairs(t *testing.T, s *Split, v *text.Vocabulary, o LoaderOptions) map[int32]string {
	t.Helper()
	o.Shuffle = true
	if o.Fields == nil {
		o.Fields = []Field{FieldFeatures}
	}
	o.Fields = append(slices.Clip(o.Fields), FieldAugmentation)
	out := map[int32]string{}
	for b := range batchesOf(NewLoader(s, v, o))(t) {
		if !o.has(FieldFeatures) { // they are where RegionRows says
			if len(b.Features) != 0 {
				t.Errorf("%d features of a loader whose features stay in place", len(b.Features))
			}
			row := make([]float32, b.Regions*b.Dim)
			for _, r := range b.RegionRows {
				try.Do(t, s.ReadImage(row, int(r)/b.Regions))
				b.Features = append(b.Features, row[int(r)%b.Regions*b.Dim:][:b.Dim]...)
			}
		}
		at := 0
		for i := range b.N {
			n := int(b.Counts[i]) * b.Dim
			out[b.Indices[i]] = fmt.Sprint(b.Words[i], b.Features[at:at+n])
			if i > 0 && b.Lengths[i] > b.Lengths[i-1] {
				t.Errorf("lengths %v are not those of the words, or not descending", b.Lengths)
			}
			at += n
		}
		if at != len(b.Features) || len(b.Counts) != b.N || b.L != int(b.Lengths[0]) {
			t.Errorf("%d counts of %d regions for %d pairs and %d numbers", len(b.Counts), at/b.Dim, b.N,
				len(b.Features))
		}
	}
	return out
}

// What augmentation does to a caption and its image follows from seed, epoch (quirk Q15) and caption alone.
func TestAugmentationBelongsToTheCaption(t *testing.T) {
	w := newWorld(t, 9, 5, false, "train")
	s, v := w.open(t, "train", OpenOptions{}), vocab(t)
	for _, o := range []LoaderOptions{{Batch: 7, Seed: 3}, {Batch: 45, Seed: 3, Workers: 1},
		{Batch: 2, Seed: 3, Workers: 5}, {Batch: 7, Seed: 3, Fields: []Field{}}, {Batch: 7, Seed: 4},
		{Batch: 7, Seed: 3, StartEpoch: 2}} {
		o.Epochs = o.StartEpoch + 1
		all := pairs(t, s, v, o)
		if len(all) != s.NumCaptions() {
			t.Fatalf("%d captions of %d", len(all), s.NumCaptions())
		}
		for c, got := range all {
			draws := func(what string) *philox.Stream {
				return philox.NewKey(o.Seed, "augment/"+what).Stream(uint64(o.StartEpoch)<<32 | uint64(c))
			}
			ids, _ := v.AppendCaption(nil, new(text.WordSplitter), s.Caption(int(c)))
			words := text.AugmentIDs(nil, ids, int32(v.Len()), v.Len()+1, draws("words"))
			var images []float32
			for _, r := range text.KeepRegions(nil, 3, draws("regions")) {
				for k := range 4 {
					images = append(images, w.feature(int(c)/5, int(r)*4+k))
				}
			}
			if want := fmt.Sprint(words, images); got != want {
				t.Errorf("%+v, caption %d: %s, want %s", o, c, got, want)
			}
		}
	}
}

// Evaluation sees every region and every word.
func TestEvaluationIsNotAugmented(t *testing.T) {
	w := newWorld(t, 9, 5, false, "test")
	s, v := w.open(t, "test", OpenOptions{}), vocab(t)
	for _, open := range []func(LoaderOptions) (*Loader, error){
		func(o LoaderOptions) (*Loader, error) { return NewImageLoader(s, o) },
		func(o LoaderOptions) (*Loader, error) { return NewCaptionLoader(s, v, nil, o) },
	} {
		var all [2][]string
		for i, augment := range []bool{false, true} {
			l := try.Get(open(LoaderOptions{Batch: 9,
				Fields: map[bool][]Field{true: {FieldFeatures, FieldAugmentation}}[augment]}))(t)
			all[i] = drain(t, l, 1)
			l.Close()
		}
		if !slices.Equal(all[0], all[1]) {
			t.Errorf("augmented: %s, otherwise %s", all[1], all[0])
		}
	}
}
