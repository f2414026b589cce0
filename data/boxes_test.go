package data

import (
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/npy"
)

// Every pair of a batch has the boxes of its own image, divided by the size of the picture exactly once, however often
// they are read, and in every layout of the rows.
func TestBatchesHaveTheBoxesOfTheirImages(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		w := newWorld(t, 6, 5, repeated, "train")
		w.boxes(t)
		s := w.open(t, "train", OpenOptions{Boxes: true})
		for name, load := range map[string]func() (*Loader, error){
			"pairs": func() (*Loader, error) {
				return NewLoader(s, vocab(t), LoaderOptions{Batch: 4, Seed: 3, Shuffle: true, Epochs: 3})
			},
			"images": func() (*Loader, error) { return NewImageLoader(s, LoaderOptions{Batch: 4}) },
		} {
			l, err := load()
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			for {
				b, err := l.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if len(b.Boxes) != b.N*3*4 {
					t.Fatalf("%s: %d values of boxes for %d images", name, len(b.Boxes), b.N)
				}
				for i, image := range b.ImageIDs {
					x := float32(image) + 2 // region 2
					want := [4]float32{(x + 1) / 100, (x + 2) / 90, (x + 11) / 100, (x + 22) / 90}
					if got := [4]float32(b.Boxes[(i*3+2)*4:]); got != want {
						t.Fatalf("%s: image %d has boxes %v, want %v", name, image, got, want)
					}
				}
				l.Release(b)
			}
		}
	}
}

// The reference stores sizes as an object array of dicts; the file was written by NumPy.
func TestSizesOfObjectArrays(t *testing.T) {
	for _, name := range []string{"sizes_p2.npy", "sizes.npy"} {
		path := "../internal/npy/testdata/" + name
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("%v", err)
		}
		f, err := npy.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := sizesOf(f, path, f.Rows())
		if err != nil || len(got) != 2*f.Rows() || got[0] < 1 {
			t.Errorf("%s: sizes %v, %v", name, got, err)
		}
		if _, err := sizesOf(f, path, f.Rows()+1); err == nil ||
			!strings.Contains(err.Error(), "expected one for each") {
			t.Errorf("%s: sizes of more rows: %v", name, err)
		}
	}
}

func TestBadBoxes(t *testing.T) {
	w := newWorld(t, 6, 5, false, "train")
	if _, err := Open(w.dir, "train", OpenOptions{Boxes: true}); err == nil ||
		!strings.Contains(err.Error(), "train_ims_bbx.npy, pixel coordinates") {
		t.Errorf("missing boxes: %v", err)
	}
	w.boxes(t)
	w.array(t, "train_sizes.npy", []int{6, 2}, append(sizes(5), 7, 90))
	s := w.open(t, "train", OpenOptions{Boxes: true})
	if err := s.ReadBoxes(make([]float32, 12), 4); err != nil {
		t.Error(err)
	}
	err := s.ReadBoxes(make([]float32, 12), 5)
	if err == nil || !strings.Contains(err.Error(), "row 5 (image id im5), region 0: box 6,7 to 16,27; expected x1 "+
		"<= x2 and y1 <= y2 inside a picture of 7 x 90") {
		t.Errorf("a box outside its picture: %v", err)
	}
	w.array(t, "train_sizes.npy", []int{6, 2}, make([]float32, 12))
	if _, err := Open(w.dir, "train", OpenOptions{Boxes: true}); err == nil ||
		!strings.Contains(err.Error(), "row 0: a picture of 0 x 0") {
		t.Errorf("sizes of 0: %v", err)
	}
}

// With BoxDecay, use n of an image has its boxes divided n times, in whatever batch and epoch, also after resuming.
func TestBoxesThatDecay(t *testing.T) {
	w := newWorld(t, 4, 5, false, "train")
	w.boxes(t)
	s := w.open(t, "train", OpenOptions{Boxes: true})
	for _, from := range []int{0, 1} {
		l, err := NewLoader(s, vocab(t), LoaderOptions{Batch: 6, Seed: 3, Shuffle: true, Epochs: 2,
			Fields: []Field{FieldFeatures, FieldDecayedBoxes}, StartEpoch: from, Unsorted: true})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		uses := map[int32]int{0: 5 * from, 1: 5 * from, 2: 5 * from, 3: 5 * from}
		for {
			b, err := l.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for i, image := range b.ImageIDs {
				uses[image]++
				want := float64(image+11) / math.Pow(100, float64(uses[image])) // x2 of region 0
				if got := float64(b.Boxes[i*12+2]); math.Abs(got-want) > 1e-6*want {
					t.Fatalf("use %d of image %d has x2 = %v, want %v", uses[image], image, got, want)
				}
			}
			l.Release(b)
		}
		if uses[0] != 10 {
			t.Fatalf("%d uses", uses[0])
		}
	}
}

// naiveItems reads boxes as GSMN's repository does: every access divides what is stored.
type naiveItems struct {
	rows    [][]float32 // [rows][R·4]
	sizes   []float32   // [rows, 2]
	divisor int         // captions of a row
}

func (n *naiveItems) item(caption int) []float32 {
	row := caption / n.divisor
	for e := range n.rows[row] {
		n.rows[row][e] /= n.sizes[2*row+e%2]
	}
	return slices.Clone(n.rows[row])
}

// The boxes of an evaluation are those of a reader that goes through the captions twice and changes what it reads.
func TestStoredBoxes(t *testing.T) {
	const images, k = 7, 5
	for _, repeated := range []bool{false, true} {
		w := newWorld(t, images, k, repeated, "train")
		w.boxes(t)
		s := w.open(t, "train", OpenOptions{Boxes: true})
		n := &naiveItems{sizes: s.boxes.sizes, divisor: k}
		if repeated {
			n.divisor = 1
		}
		for row := range s.FeatureRows() {
			b := make([]float32, 4*s.Regions())
			if err := s.boxes.pixels.ReadRow(b, row); err != nil {
				t.Fatal(err)
			}
			n.rows = append(n.rows, b)
		}
		stored := make([][]float32, images*k)
		for range 2 {
			for c := range stored {
				stored[c] = n.item(c)
			}
		}
		for which, caption := range map[StoredBoxes]func(image int) int{
			SplitBoxes: func(image int) int { return image },
			FoldBoxes:  func(image int) int { return image * k },
		} {
			l, err := NewImageLoader(s, LoaderOptions{Batch: 3, Boxes: which})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			seen := 0
			for b, err := l.Next(); err != io.EOF; b, err = l.Next() {
				if err != nil {
					t.Fatal(err)
				}
				for i, image := range b.ImageIDs {
					got, want := b.Boxes[i*12:(i+1)*12], stored[caption(int(image))]
					if !slices.Equal(got, want) {
						t.Errorf("repeated %v, boxes %d of image %d: %v, want %v", repeated, which, image, got, want)
					}
					seen++
				}
				l.Release(b)
			}
			if seen != images {
				t.Errorf("%d images, want %d", seen, images)
			}
		}
		if _, err := NewImageLoader(s, LoaderOptions{Batch: 3, Boxes: FoldBoxes,
			Fields: []Field{FieldFeatures}}); err == nil {
			t.Error("boxes of other images stay in place")
		}
	}
}
