package data

import (
	"iter"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// Every pair of a batch has the boxes of its own image, divided by the size of the picture exactly once, however often
// they are read, and in every layout of the rows.
func TestBatchesHaveTheBoxesOfTheirImages(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		w := newWorld(t, 6, 5, repeated, "train")
		w.boxes(t)
		s := w.open(t, "train", OpenOptions{Boxes: true})
		for name, load := range map[string]iter.Seq[*Batch]{
			"pairs": batchesOf(NewLoader(s, vocab(t), LoaderOptions{Batch: 4, Seed: 3, Shuffle: true,
				Epochs: 3}))(t),
			"images": batchesOf(NewImageLoader(s, LoaderOptions{Batch: 4}))(t),
		} {
			for b := range load {
				if len(b.Boxes) != b.N*3*4 {
					t.Fatalf("%s: %d values of boxes for %d images", name, len(b.Boxes), b.N)
				}
				for i, image := range b.ImageIndices {
					x := float32(image) + 2 // region 2
					want := [4]float32{(x + 1) / 100, (x + 2) / 90, (x + 11) / 100, (x + 22) / 90}
					if got := [4]float32(b.Boxes[(i*3+2)*4:]); got != want {
						t.Fatalf("%s: image %d has boxes %v, want %v", name, image, got, want)
					}
				}
			}
		}
	}
}

// The reference stores sizes as an object array of dicts; the file was written by NumPy.
func TestSizesOfObjectArrays(t *testing.T) {
	dir := try.Fixtures(t, "npy")
	for _, name := range []string{"sizes_p2.npy", "sizes.npy"} {
		path := filepath.Join(dir, name)
		f := try.Get(npy.Open(path))(t)
		defer f.Close()
		got, err := sizesOf(f, f.Rows())
		if err != nil || len(got) != 2*f.Rows() || got[0] < 1 {
			t.Errorf("%s: sizes %v, %v", name, got, err)
		}
		try.Refuses(sizesOf(f, f.Rows()+1))(t, "expected one for each")
	}
}

func TestBadBoxes(t *testing.T) {
	w := newWorld(t, 6, 5, false, "train")
	try.Refuses(Open(w.dir, "train", OpenOptions{Boxes: true}))(t, "train_ims_bbx.npy, pixel coordinates")
	w.boxes(t)
	w.array(t, "train_sizes.npy", []int{6, 2}, append(sizes(5), 7, 90))
	s := w.open(t, "train", OpenOptions{Boxes: true})
	try.Do(t, s.ReadBoxes(make([]float32, 12), 4))
	try.Fails(t, s.ReadBoxes(make([]float32, 12), 5), "row 5 (image id im5), region 0: box 6,7 to 16,27; expected x1 "+
		"<= x2 and y1 <= y2 inside a picture of 7 x 90")
	w.array(t, "train_sizes.npy", []int{6, 2}, make([]float32, 12))
	try.Refuses(Open(w.dir, "train", OpenOptions{Boxes: true}))(t, "row 0: a picture of 0 x 0")
}

// boxReader reads boxes as GSMN's repository does: every access divides what is stored. Its torch.Tensor shares the
// memory of float32 boxes until the batch is put together; of float64 boxes it makes a copy of float32.
type boxReader struct {
	shared []([]float32) // [rows][R·4], one of the two
	copied []([]float64)
	sizes  []float32 // [rows, 2]
	row    func(caption int) int
}

func newBoxReader(t *testing.T, s *Split, dtype npy.DType) *boxReader {
	t.Helper()
	n := &boxReader{sizes: s.boxes.sizes, row: s.ImageRow}
	for row := range s.FeatureRows() {
		b, wide := make([]float32, 4*s.Regions()), make([]float64, 4*s.Regions())
		try.Do(t, s.boxes.pixels.ReadRow(b, row))
		for i, v := range b {
			wide[i] = float64(v)
		}
		if dtype == npy.F32 {
			n.shared = append(n.shared, b)
		} else {
			n.copied = append(n.copied, wide)
		}
	}
	return n
}

func (n *boxReader) batch(captions []int32) [][]float32 {
	items := make([][]float32, len(captions))
	for i, c := range captions {
		row := n.row(int(c))
		if n.shared != nil {
			items[i] = n.shared[row]
			for e := range items[i] {
				items[i][e] /= n.sizes[2*row+e%2]
			}
			continue
		}
		for e := range n.copied[row] {
			n.copied[row][e] /= float64(n.sizes[2*row+e%2])
			items[i] = append(items[i], float32(n.copied[row][e]))
		}
	}
	for i := range items {
		items[i] = slices.Clone(items[i])
	}
	return items
}

// sameBoxes allows for the rounding of float64 that repeated division and one by a power differ by.
func sameBoxes(got, want []float32) bool {
	return slices.EqualFunc(got, want, func(a, b float32) bool {
		return math.Abs(float64(a)-float64(b)) <= 1e-7*math.Abs(float64(b))
	})
}

// With FieldDecayedBoxes a training sees what that reader gives, in whatever batch and epoch, also after resuming.
func TestBoxesThatDecay(t *testing.T) {
	for _, dtype := range []npy.DType{npy.F32, npy.F64} {
		for _, repeated := range []bool{false, true} {
			w := newWorld(t, 4, 5, repeated, "train")
			w.boxesOf(t, dtype)
			s := w.open(t, "train", OpenOptions{Boxes: true})
			for _, from := range []int{0, 1, 2} {
				if from == 2 { // from then on with a noise index
					try.Get(AttachNoise(s, w.noise(t, NoisyCaptions(EqualGroups(4, 5), 0.5, 1)...)))(t)
				}
				o := LoaderOptions{Batch: 6, Seed: 3, Shuffle: true, Epochs: 3, StartEpoch: from,
					Fields: []Field{FieldFeatures, FieldDecayedBoxes}}
				sampler := try.Get(NewSampler(20, 6, 3, true, false))(t)
				n := newBoxReader(t, s, dtype)
				for range from {
					for c := range int32(s.NumCaptions()) {
						n.batch([]int32{c})
					}
				}
				for b := range batchesOf(NewLoader(s, vocab(t), o))(t) {
					order := sampler.Batch(b.Epoch, b.Iter)
					stored := n.batch(order)
					for i, c := range b.Indices {
						want := stored[slices.Index(order, c)]
						if got := b.Boxes[i*12 : (i+1)*12]; !sameBoxes(got, want) {
							t.Fatalf("%s, epoch %d, caption %d: boxes %v, want %v", dtype, b.Epoch, b.Indices[i], got,
								want)
						}
					}
				}
			}
		}
	}
}

// The boxes of an evaluation are the same as with that reader, which goes through the captions twice.
func TestStoredBoxes(t *testing.T) {
	const images, k = 7, 5
	for _, dtype := range []npy.DType{npy.F32, npy.F64} {
		for _, repeated := range []bool{false, true} {
			w := newWorld(t, images, k, repeated, "train")
			w.boxesOf(t, dtype)
			s := w.open(t, "train", OpenOptions{Boxes: true})
			for _, batch := range []int{1, 3, 6, 128} {
				n := newBoxReader(t, s, dtype)
				var stored [][]float32
				for range 2 {
					stored = stored[:0]
					for some := range slices.Chunk(upTo(images*k), batch) {
						stored = append(stored, n.batch(some)...)
					}
				}
				for _, folds := range []bool{false, true} {
					o := LoaderOptions{Batch: 3, Boxes: &StoredBoxes{Folds: folds, Batch: batch}}
					seen := 0
					for b := range batchesOf(NewImageLoader(s, o))(t) {
						for i, image := range b.ImageIndices {
							want := stored[image]
							if folds {
								want = stored[image*k]
							}
							if got := b.Boxes[i*12 : (i+1)*12]; !sameBoxes(got, want) {
								t.Errorf("%s, repeated %v, batch %d, folds %v, image %d: boxes %v, want %v", dtype,
									repeated, batch, folds, image, got, want)
							}
							seen++
						}
					}
					if seen != images {
						t.Errorf("%d images, want %d", seen, images)
					}
				}
			}
			if _, err := NewImageLoader(s, LoaderOptions{Batch: 3, Boxes: &StoredBoxes{Batch: 3},
				Fields: []Field{FieldFeatures}}); err == nil {
				t.Error("boxes of other images stay in place")
			}
			l, err := NewImageLoader(s, LoaderOptions{Batch: 3, Boxes: &StoredBoxes{}})
			if (err != nil) != (dtype == npy.F32) {
				t.Errorf("%s boxes of a batch of 0: %v", dtype, err)
			}
			if err == nil {
				l.Close()
			}
		}
	}
}
