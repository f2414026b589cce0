package data

import (
	"fmt"
	"math"
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

// What augmentation does to a caption and its image follows from seed, epoch and caption alone.
func TestAugmentationBelongsToTheCaption(t *testing.T) {
	w := newWorld(t, 9, 5, false, "train")
	s, v := w.open(t, "train", OpenOptions{}), vocab(t)
	first := pairs(t, s, v, LoaderOptions{Batch: 7, Seed: 3, Epochs: 1})
	if len(first) != s.NumCaptions() {
		t.Fatalf("%d captions of %d", len(first), s.NumCaptions())
	}
	for c, got := range first {
		stream := philox.NewKey(3, "augment/words").Stream(uint64(c))
		ids, _ := v.AppendCaption(nil, new(text.WordSplitter), s.Caption(int(c)))
		words := text.AugmentIDs(nil, ids, int32(v.Len()), v.Len()+1, stream)
		stream = philox.NewKey(3, "augment/regions").Stream(uint64(c))
		var images []float32
		for _, r := range text.KeepRegions(nil, 3, stream) {
			for k := range 4 {
				images = append(images, w.feature(int(c)/5, int(r)*4+k))
			}
		}
		if want := fmt.Sprint(words, images); got != want {
			t.Errorf("caption %d: %s, want %s", c, got, want)
		}
	}
	for _, o := range []LoaderOptions{{Batch: 45, Seed: 3, Epochs: 1, Workers: 1},
		{Batch: 2, Seed: 3, Epochs: 1, Workers: 5}, {Batch: 7, Seed: 3, Epochs: 1, Fields: []Field{}}} {
		again := pairs(t, s, v, o)
		for c := range first {
			if again[c] != first[c] {
				t.Errorf("batches of %d: caption %d is %s, was %s", o.Batch, c, again[c], first[c])
			}
		}
	}
	for what, o := range map[string]LoaderOptions{"seed": {Batch: 7, Seed: 4, Epochs: 1},
		"epoch": {Batch: 7, Seed: 3, Epochs: 2, StartEpoch: 1}} {
		other, same := pairs(t, s, v, o), 0
		for c := range first {
			if other[c] == first[c] {
				same++
			}
		}
		if same > len(first)/3 {
			t.Errorf("another %s leaves %d of %d captions as they were", what, same, len(first))
		}
	}
}

// Every epoch draws anew, for the regions and for the words (quirk Q15).
func TestAugmentationOfEveryEpochIsAnother(t *testing.T) {
	a := newAugmenter(3)
	seen := map[string]int{}
	for epoch := range 6 {
		regions := fmt.Sprint(a.keptRegions(100, epoch, 5))
		words := fmt.Sprint(a.wordDraws(epoch, 5).Float64())
		for what, drawn := range map[string]string{"regions": regions, "words": words} {
			if before, ok := seen[what+drawn]; ok {
				t.Errorf("epochs %d and %d draw the same %s", before, epoch, what)
			}
			seen[what+drawn] = epoch
		}
	}
}

// The shares of what happens to regions and words, within five standard deviations.
func TestAugmentationRates(t *testing.T) {
	const captions, regions, words, v = 3000, 36, 20, 1000
	a := newAugmenter(1)
	x, ids := make([]float32, regions), make([]int32, words)
	for i := range ids {
		ids[i] = 5
	}
	var kept, masked, random, left int
	for c := range int32(captions) {
		for r := range x {
			x[r] = float32(r)
		}
		n := keepRows(x, a.keptRegions(regions, 7, c), 1)
		kept += n
		if !slices.IsSorted(x[:n]) {
			t.Fatalf("regions %v are not in order", x[:n])
		}
		for _, id := range text.AugmentIDs(nil, ids, v, v, a.wordDraws(7, c)) {
			left++
			switch id {
			case 5:
			case v:
				masked++
			default:
				random++
			}
		}
	}
	for _, s := range []struct {
		what   string
		n, of  int
		expect float64
	}{{"regions kept", kept, captions * regions, 0.8}, {"words left", left, captions * words, 0.92},
		{"words masked", masked, captions * words, 0.1}, {"words replaced", random, captions * words, 0.02}} {
		if got, sd := float64(s.n)/float64(s.of),
			math.Sqrt(s.expect*(1-s.expect)/float64(s.of)); math.Abs(got-s.expect) > 5*sd {
			t.Errorf("%s: %.4f, want %.4f", s.what, got, s.expect)
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
