package eval

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"vsetrain/internal/compute/par"
	"vsetrain/internal/files/npy"
)

// saveRows is how many rows of S are computed and written at a time.
const saveRows = 64

// SaveScores writes S as a float32 array [images, captions] in NumPy's format, 64 rows at a time. The file
// appears under its name only when it is complete. pool may be nil.
func SaveScores(pool *par.Pool, path string, s Scores) error {
	return saveIn(usualTiles().captions, pool, path, s)
}

// saveIn is SaveScores in tiles of that many captions.
func saveIn(tileC int, pool *par.Pool, path string, s Scores) error {
	n, m := s.Dims()
	w, err := npy.Create(path, npy.F32, []int{n, m})
	if err != nil {
		return fmt.Errorf("save scores: %w", err)
	}
	// One tile per index, not one row: a tile of embeddings costs a whole panel of images however few it needs.
	strip := (m + tileC - 1) / tileC
	row := make([]float32, min(saveRows, n)*m)
	for i0 := 0; i0 < n; i0 += saveRows {
		i1 := min(n, i0+saveRows)
		pool.For(strip, par.Func(func(_, t int) {
			c0 := t * tileC
			c1 := min(m, c0+tileC)
			tile := make([]float64, (i1-i0)*(c1-c0))
			s.Tile(tile, i0, i1, c0, c1)
			for i := range i1 - i0 {
				for j, v := range tile[i*(c1-c0) : (i+1)*(c1-c0)] {
					row[i*m+c0+j] = float32(v)
				}
			}
		}))
		if err := w.WriteFloat32(row[:(i1-i0)*m]); err != nil {
			w.Abort()
			return fmt.Errorf("save scores: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("save scores: %w", err)
	}
	return nil
}

// LoadScores reads a score matrix of floats [images, captions] in NumPy's format, such as SaveScores or numpy.save
// writes, into memory: a member of an ensemble whose model is not at hand.
func LoadScores(path string) (Scores, error) {
	f, err := npy.OpenUnmapped(path) // 500 MB of MS-COCO's 5,000 x 25,000 are in memory once
	if err != nil {
		return nil, fmt.Errorf("load scores: %w", err)
	}
	defer f.Close()
	if err := scoresShape(f); err != nil {
		return nil, fmt.Errorf("load scores: %s: %w", path, err)
	}
	if f.DType == npy.F64 || f.Fortran {
		v, err := f.Float64s()
		if err != nil {
			return nil, fmt.Errorf("load scores: %w", err)
		}
		return checkScores(path, &Dense[float64]{f.Shape[0], f.Shape[1], v})
	}
	v := make([]float32, f.Rows()*f.RowLen())
	for i := range f.Rows() {
		if err := f.ReadRow(v[i*f.RowLen():(i+1)*f.RowLen()], i); err != nil {
			return nil, fmt.Errorf("load scores: %w", err)
		}
	}
	return checkScores(path, &Dense[float32]{f.Shape[0], f.Shape[1], v})
}

// scoresShape returns an error where an array is none of scores.
func scoresShape(f *npy.File) error {
	text := fmt.Sprintf("expected floats of shape [images, captions], found %s of shape %v", f.DType.Name(), f.Shape)
	switch {
	case len(f.Shape) == 3:
		return fmt.Errorf("%s; these look like features of images: name a run or a checkpoint, with --data for their "+
			"folder", text)
	case len(f.Shape) != 2 || f.Shape[0] == 0 || f.Shape[1] == 0 ||
		f.DType != npy.F16 && f.DType != npy.F32 && f.DType != npy.F64:
		return fmt.Errorf("%s; 'vsetrain eval RUN --save-scores FILE.npy' writes such a file", text)
	}
	return nil
}

// checkScores returns an error where a score is NaN, which has no rank.
func checkScores[T float32 | float64](path string, d *Dense[T]) (Scores, error) {
	if at := slices.IndexFunc(d.Data, func(v T) bool { return v != v }); at >= 0 {
		return nil, fmt.Errorf("load scores: %s: the score of image %d and caption %d is NaN; expected a number for "+
			"every pair", path, at/d.Captions, at%d.Captions)
	}
	return d, nil
}

// StoredScores is a score matrix in a file, of which a block of rows is in memory at a time.
type StoredScores struct {
	path string
	f    *npy.File
	mu   sync.Mutex
	err  error // the first of reading it

	i0, i1 int // rows in block
	block  []float32
}

// OpenScores opens a matrix that LoadScores reads, without reading it. Matrices of float64 and of Fortran order have no
// rows that could be read one by one in their precision: they are refused.
func OpenScores(path string) (*StoredScores, error) {
	f, err := npy.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open scores: %w", err)
	}
	if err := scoresShape(f); err != nil {
		return nil, errors.Join(fmt.Errorf("open scores: %s: %w", path, err), f.Close())
	}
	if f.DType != npy.F16 && f.DType != npy.F32 || f.Fortran {
		err := fmt.Errorf("open scores: %s: expected float32 or float16 of shape [images, captions] in C order, "+
			"found %s %v; save it with numpy.save(file, numpy.ascontiguousarray(scores, 'float32'))", path,
			f.DType.Name(), f.Shape)
		return nil, errors.Join(err, f.Close())
	}
	return &StoredScores{path: path, f: f}, nil
}

// Close closes the file and returns the first error of reading it, or the error of a score that is NaN.
func (s *StoredScores) Close() error { return errors.Join(s.err, s.f.Close()) }

// Dims implements Scores.
func (s *StoredScores) Dims() (images, captions int) { return s.f.Shape[0], s.f.Shape[1] }

// At implements Scores.
func (s *StoredScores) At(i, c int) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i < s.i0 || i >= s.i1 {
		from := i - i%usualTiles().images
		s.read(from, min(s.f.Shape[0], from+usualTiles().images))
	}
	return float64(s.block[(i-s.i0)*s.f.Shape[1]+c])
}

// Tile implements Scores.
func (s *StoredScores) Tile(dst []float64, i0, i1, c0, c1 int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i0 < s.i0 || i1 > s.i1 {
		s.read(i0, i1)
	}
	m := s.f.Shape[1]
	(&Dense[float32]{s.i1 - s.i0, m, s.block}).Tile(dst, i0-s.i0, i1-s.i0, c0, c1)
}

// read brings rows i0 to i1 into memory. Those that cannot be read are zero; Close says so.
func (s *StoredScores) read(i0, i1 int) {
	m := s.f.Shape[1]
	s.i0, s.i1, s.block = i0, i1, slices.Grow(s.block[:0], (i1-i0)*m)[:(i1-i0)*m]
	for i := i0; i < i1; i++ {
		row := s.block[(i-i0)*m:][:m]
		err := s.f.ReadRow(row, i)
		if at := slices.IndexFunc(row, func(v float32) bool { return v != v }); err == nil && at >= 0 {
			err = fmt.Errorf("%s: the score of image %d and caption %d is NaN; expected a number for every pair",
				s.path, i, at)
		}
		if err != nil {
			clear(row)
			s.err = cmp.Or(s.err, err)
		}
	}
}
