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

// saveRows is the number of rows of S that are computed and written at a time.
const saveRows = 64

// SaveScores writes S as a float32 array [images, captions] in NumPy's format, 64 rows at a time. The file appears
// under its name only when it is complete. pool may be nil.
func SaveScores(pool *par.Pool, path string, s Scores) error {
	n, m := s.Dims()
	w, err := npy.Create(path, npy.F32, []int{n, m})
	if err != nil {
		return fmt.Errorf("save scores: %w", err)
	}
	rows := make([]float32, min(saveRows, n)*m)
	for i0 := 0; i0 < n; i0 += saveRows {
		part := block{s, i0, 0, min(saveRows, n-i0), m}
		eachRow(usualTiles(), pool, part, func(i, c0 int, scores []float64) {
			for j, v := range scores {
				rows[i*m+c0+j] = float32(v)
			}
		})
		if err := w.WriteFloat32(rows[:part.images*m]); err != nil {
			w.Abort()
			return fmt.Errorf("save scores: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("save scores: %w", err)
	}
	return nil
}

// LoadScores reads a score matrix of floats [images, captions] into memory, in NumPy's format as written by SaveScores
// or numpy.save. Such a matrix can be a member of an ensemble without its model.
func LoadScores(path string) (Scores, error) {
	f, err := npy.OpenUnmapped(path) // so that 500 MB of MS-COCO's 5,000 x 25,000 scores are in memory only once
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

// scoresShape returns an error if an array does not have the type and shape of a score matrix.
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

// checkScores returns an error if a score is NaN, which has no rank.
func checkScores[T float32 | float64](path string, d *Dense[T]) (Scores, error) {
	if at := slices.IndexFunc(d.Data, func(v T) bool { return v != v }); at >= 0 {
		return nil, fmt.Errorf("load scores: %s: the score of image %d and caption %d is NaN; expected a number for "+
			"every pair", path, at/d.Captions, at%d.Captions)
	}
	return d, nil
}

// StoredScores is a score matrix in a file. A block of its rows is in memory at a time.
type StoredScores struct {
	path string
	f    *npy.File
	mu   sync.Mutex
	err  error // the first read error

	i0, i1 int // rows in block
	block  []float32
}

// OpenScores opens a score matrix that LoadScores could read, without reading it. It refuses matrices in float64 or
// Fortran order, whose rows cannot be read one by one in full precision.
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

// Close closes the file. It returns the first error of reading a row, such as a NaN score.
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

// read reads rows [i0, i1) into memory. Rows that cannot be read become zero, and Close returns the error.
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
