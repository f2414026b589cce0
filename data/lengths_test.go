package data

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// counts writes the numbers of regions of a split.
func (w *world) counts(t testing.TB, split string, counts ...int64) {
	t.Helper()
	f := try.Get(npy.Create(w.path(split+lengthsEnd), npy.I32, []int{len(counts)}))(t)
	try.Do(t, errors.Join(f.WriteInts(counts), f.Close()))
}

// Batches bring the regions that an image has, with size augmentation some of these, in every layout of rows and on
// every rank, and nothing of the padding.
func TestBatchesBringTheRegionsThatAreThere(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 5))
		w := newWorld(t, 2+rng.IntN(8), 1+rng.IntN(5), rng.IntN(2) == 0, "train")
		w.regions = 1 + rng.IntN(5)
		w.writeSplit(t, "train")
		ofImage, counts := make([]int, w.images), []int64(nil)
		for i := range ofImage {
			ofImage[i] = 1 + rng.IntN(w.regions)
			for k := range w.k {
				if k == 0 || w.repeated {
					counts = append(counts, int64(ofImage[i]))
				}
			}
		}
		w.counts(t, "train", counts...)
		s := w.open(t, "train", OpenOptions{})
		if Counted(s) != (slices.Min(ofImage) < w.regions) {
			t.Errorf("seed %d: counted is %v for %v of %d", seed, Counted(s), ofImage, w.regions)
		}
		ranks := 1 + rng.IntN(2)
		o := LoaderOptions{Batch: 2, Seed: seed, Shuffle: true, Epochs: 1, Rank: rng.IntN(ranks), Ranks: ranks,
			DropLast: true}
		augmented := rng.IntN(2) == 0
		if o.Fields = []Field{FieldFeatures}; augmented {
			o.Fields = append(o.Fields, FieldAugmentation)
		}
		numbered := o
		numbered.Fields = o.Fields[1:]
		n := try.Get(NewLoader(s, vocab(t), numbered))(t)
		for b := range batchesOf(NewLoader(s, vocab(t), o))(t) {
			rows := try.Get(n.Next())(t)
			at := 0
			for i := range b.N {
				image, there := int(b.ImageIndices[b.pair(i)]), w.regions
				if b.Counts != nil {
					there = int(b.Counts[i])
				}
				if own := ofImage[image]; there > own || !augmented && there != own || int(b.MostRegions) > w.regions ||
					ranks > 1 && (augmented || Counted(s)) && int(b.MostRegions) < there {
					t.Fatalf("seed %d: image %d has %d regions of %d", seed, image, there, own)
				}
				for r := range there {
					region := int(math.Round(float64(b.Features[at]-float32(image)) * 100 / float64(w.dim)))
					if region >= ofImage[image] || b.Features[at] != w.feature(image, region*w.dim) {
						t.Fatalf("seed %d: region %d of image %d is %v", seed, r, image, b.Features[at])
					}
					if rows.Counts != nil && int(rows.RegionRows[at/w.dim])%w.regions != region {
						t.Fatalf("seed %d: numbers of regions %v", seed, rows.RegionRows)
					}
					at += w.dim
				}
			}
			if at != len(b.Features) {
				t.Fatalf("seed %d: %d values, expected %d", seed, len(b.Features), at)
			}
			n.Release(rows)
		}
		n.Close()
	}
}

func TestBadLengths(t *testing.T) {
	w := newWorld(t, 4, 5, false, "train")
	for _, c := range []struct {
		counts []int64
		want   string
	}{
		{[]int64{1, 2, 3}, "shape [3] of int32; expected whole numbers [4], the regions of each row of train_ims.npy"},
		{[]int64{1, 0, 3, 3}, "row 1 has 0 regions; expected 1 to 3, the places of train_ims.npy"},
		{[]int64{1, 2, 3, 4}, "row 3 has 4 regions"},
	} {
		w.counts(t, "train", c.counts...)
		try.Refuses(Open(w.dir, "train", OpenOptions{}))(t, "train_lengths.npy: ", c.want)
	}
	w.array(t, "train_lengths.npy", []int{4}, []float32{1, 2, 3, 3})
	try.Refuses(Open(w.dir, "train", OpenOptions{}))(t, "shape [4] of float32; expected whole numbers")
	w.counts(t, "train", 3, 1, 3, 2)
	r := try.Get(Check(w.dir, CheckOptions{}))(t)
	const want = "2 rows have values after the regions that are counted, the first are [1 3]"
	if text := problems(r); !strings.Contains(text, want) {
		t.Errorf("problems:\n%s", text)
	}
}

// Zeros after the regions of a row are said to count as regions, by Open and by Check, unless they are counted.
func TestPaddingIsNamed(t *testing.T) {
	w := newWorld(t, 4, 5, false, "train")
	x := make([]float32, 4*3*4)
	for i := range x {
		if row, region := i/12, i/4%3; region <= row%3 {
			x[i] = 1 + float32(i)
		}
	}
	w.array(t, "train_ims.npy", []int{4, 3, 4}, x)
	for _, counted := range []bool{false, true} {
		if counted {
			w.counts(t, "train", 1, 2, 3, 1)
		}
		var warned []string
		w.open(t, "train", OpenOptions{Warn: func(err error) { warned = append(warned, err.Error()) }})
		said := strings.Join(warned, "\n")
		text := problems(try.Get(Check(w.dir, CheckOptions{}))(t))
		const zeros = "are zeros and count as regions"
		if strings.Contains(said, "the last regions of 3 of 4 rows "+zeros) == counted ||
			strings.Contains(text, "the last regions of 3 rows "+zeros+", the first rows are [0 1 3]") == counted {
			t.Errorf("counted %v: %q, problems:\n%s", counted, said, text)
		}
	}
}

// Images of a gallery keep their numbers of regions when others come and go, and when they are folded.
func TestGalleryKeepsTheRegionsThatAreThere(t *testing.T) {
	w := gallery(t, 4, false)
	w.counts(t, "test", 3, 1, 2, 3)
	change := Change{Removed: []string{"im0"}, Added: []NewImage{{ID: "new"}}}
	try.Do(t, Amend(t.Context(), w.dir, "test", change, features(false, 7)))
	folded := t.TempDir()
	names := try.Get(Fold(w.dir, "test", folded))(t)
	if !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, "test_lengths.npy") }) {
		t.Errorf("folded files %v", names)
	}
	for _, dir := range []string{w.dir, folded} {
		s := try.Get(Open(dir, "test", OpenOptions{Partial: true}))(t)
		defer s.Close()
		if got := fmt.Sprint(s.counts); got != "[1 2 3 3]" {
			t.Errorf("%s: regions of im1, im2, im3 and new: %s", dir, got)
		}
	}
}

// Boxes are read as pixels or as shares of the picture by what the file holds, of any type.
func TestUnitsOfBoxes(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 6))
		w := newWorld(t, 1+rng.IntN(90), 5, false, "train")
		n := w.images * w.regions
		want, stored, pictures := make([]float32, 4*n), make([]float32, 4*n), make([]float32, 2*w.images)
		shares, dtype := rng.IntN(2) == 0, []npy.DType{npy.F32, npy.F64}[rng.IntN(2)]
		for i := range pictures {
			pictures[i] = float32(16 + rng.IntN(1000))
		}
		for i := range n {
			x, y := rng.Float32()*0.9, rng.Float32()*0.9
			for k, v := range []float32{x, y, x + rng.Float32()*(1-x), y + rng.Float32()*(1-y)} {
				if want[4*i+k], stored[4*i+k] = v, v; !shares {
					stored[4*i+k] *= pictures[2*(i/w.regions)+k%2]
				}
			}
		}
		w.typed(t, "train_boxes.npy", dtype, []int{w.images, w.regions, 4}, stored)
		w.array(t, "train_sizes.npy", []int{w.images, 2}, pictures)
		s := w.open(t, "train", OpenOptions{Boxes: true})
		got := make([]float32, 4*w.regions)
		for row := range w.images {
			try.Do(t, s.ReadBoxes(got, row))
			for i, v := range got {
				if !(math.Abs(float64(v-want[row*len(got)+i])) < 1e-5) {
					t.Fatalf("seed %d, shares %v: row %d is %v, want %v", seed, shares, row, got, want[row*len(got):])
				}
			}
		}
		text := problems(try.Get(Check(w.dir, CheckOptions{}))(t))
		if strings.Contains(text, "taken for shares of the width and height") != shares ||
			strings.Contains(text, "error") {
			t.Errorf("seed %d, shares %v: problems:\n%s", seed, shares, text)
		}
	}
}
