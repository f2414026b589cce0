package data

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/data/text"
	"vsetrain/internal/files/npy"
	"vsetrain/lab/try"
)

// world is a small data set for tests: n images of k captions, features [rows, R, D] in which element e of image i
// is i + e/100.
type world struct {
	dir                string
	images, k, regions int
	dim                int
	repeated           bool
}

func newWorld(t testing.TB, images, k int, repeated bool, splits ...string) *world {
	t.Helper()
	w := &world{dir: try.MemoryDir(t), images: images, k: k, regions: 3, dim: 4, repeated: repeated}
	for _, split := range splits {
		w.writeSplit(t, split)
	}
	return w
}

func (w *world) feature(image, e int) float32 { return float32(image) + float32(e)/100 }

// caption c has 1 + c%7 words before its final stop.
func (w *world) caption(c int) string {
	words := []string{"A", "dog", "runs", "over", "wet", "grass", "today"}
	return strings.Join(words[:1+c%7], " ") + " ."
}

func (w *world) writeSplit(t testing.TB, split string) {
	t.Helper()
	var caps, ids []string
	var data []float32
	for c := range w.images * w.k {
		i := c / w.k
		caps = append(caps, w.caption(c))
		if !w.repeated && c%w.k > 0 {
			continue
		}
		ids = append(ids, fmt.Sprintf("im%d", i))
		for e := range w.regions * w.dim {
			data = append(data, w.feature(i, e))
		}
	}
	w.write(t, split+"_caps.txt", strings.Join(caps, "\n")+"\n")
	w.write(t, split+"_ids.txt", strings.Join(ids, "\n")+"\n")
	w.array(t, split+"_ims.npy", []int{len(ids), w.regions, w.dim}, data)
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) write(t testing.TB, name, content string) {
	t.Helper()
	try.Do(t, os.WriteFile(w.path(name), []byte(content), 0o644))
}

func (w *world) read(t testing.TB, name string) string {
	t.Helper()
	return string(try.Get(os.ReadFile(w.path(name)))(t))
}

func (w *world) array(t testing.TB, name string, shape []int, data []float32) {
	t.Helper()
	try.Do(t, npy.WriteFloat32(w.path(name), shape, data))
}

// typed is array of a type.
func (w *world) typed(t testing.TB, name string, dtype npy.DType, shape []int, data []float32) {
	t.Helper()
	f := try.Get(npy.Create(w.path(name), dtype, shape))(t)
	try.Do(t, errors.Join(f.WriteFloat32(data), f.Close()))
}

// noise writes a noise index.
func (w *world) noise(t testing.TB, index ...int64) string {
	t.Helper()
	try.Do(t, WriteNoise(w.path("noise.npy"), index))
	return w.path("noise.npy")
}

func (w *world) open(t testing.TB, split string, o OpenOptions) *Split {
	t.Helper()
	s := try.Get(Open(w.dir, split, o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// batchesOf iterates over the batches of a loader, valid until the next one, and closes it.
func batchesOf(l *Loader, err error) func(t testing.TB) iter.Seq[*Batch] {
	return func(t testing.TB) iter.Seq[*Batch] {
		t.Helper()
		try.Do(t, err)
		return func(yield func(*Batch) bool) {
			defer l.Close()
			for b, err := l.Next(); err != io.EOF; b, err = l.Next() {
				if try.Do(t, err); !yield(b) {
					return
				}
				l.Release(b)
			}
		}
	}
}

// vocab knows the words of the captions.
func vocab(t testing.TB) *text.Vocabulary {
	t.Helper()
	return try.Get(text.BuildVocabulary(slices.Values([]string{"a dog runs over wet grass today ."}), 1))(t)
}

// matrix is a RowSource in memory.
type matrix struct {
	rows, cols int
	at         func(row, col int) float32
}

func (m matrix) Rows() int   { return m.rows }
func (m matrix) RowLen() int { return m.cols }
func (m matrix) ReadRow(dst []float32, row int) error {
	for i := range dst {
		dst[i] = m.at(row, i)
	}
	return nil
}

// sizes are the sizes of n pictures, 100 x 90.
func sizes(n int) []float32 { return slices.Repeat([]float32{100, 90}, n) }

// boxes writes boxes and sizes of split train: region r of image i is at i + r.
func (w *world) boxes(t testing.TB) { w.boxesOf(t, npy.F32) }

func (w *world) boxesOf(t testing.TB, dtype npy.DType) {
	t.Helper()
	each := 1 // rows of an image
	if w.repeated {
		each = w.k
	}
	rows := w.images * each
	var data []float32
	for i := range rows {
		for r := range w.regions {
			x := float32(i/each + r)
			data = append(data, x+1, x+2, x+11, x+22)
		}
	}
	w.typed(t, "train_boxes.npy", dtype, []int{rows, w.regions, 4}, data)
	w.array(t, "train_sizes.npy", []int{rows, 2}, sizes(rows))
}

// trees is a dependency file with the same tree for n captions, one on a line.
func trees(n int, tree string) string {
	return "[\n" + strings.TrimSuffix(strings.Repeat(tree+",\n", n), ",\n") + "\n]\n"
}
