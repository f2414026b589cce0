package semantic

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
)

// Store is an open file of semantic vectors [captions, dim]; row c belongs to line c of the caption file. Several
// goroutines may call its methods at once, except Close.
type Store struct {
	Path    string
	Sidecar *Sidecar // nil if the file has no description

	file      *npy.File // .npy, read row by row
	data      []float32 // text, in memory
	rows, dim int
}

// OpenOptions tells Open what the vectors must fit.
type OpenOptions struct {
	Captions    int    // expected number of rows; 0 accepts any
	CaptionFile string // file whose hash must be the hash in the Sidecar; "" accepts any
	Threads     int    // threads to parse text; 0 means all processors
	// Warn is told if it is unknown whether the vectors belong to CaptionFile; it may be nil.
	Warn func(error)
}

// Open opens an .npy array (float16, float32 or float64 [captions, dim]; mapped, not read) or a text file of
// comma-separated lines as the references' train_svd.txt (read into memory).
func Open(path string, o OpenOptions) (*Store, error) {
	s := &Store{Path: path}
	var err error
	if s.Sidecar, err = readSidecar(path); err != nil {
		return nil, err
	}
	if strings.ToLower(filepath.Ext(path)) == ".npy" {
		err = s.openNPY()
	} else {
		s.data, s.dim, err = readText(path, o.Threads)
		if err == nil {
			s.rows = len(s.data) / s.dim
		}
	}
	if err == nil {
		err = s.check(o)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) openNPY() error {
	f, err := npy.Open(s.Path)
	if err != nil {
		return fmt.Errorf("semantic vectors: %w", err)
	}
	s.file = f
	switch f.DType {
	case npy.F16, npy.F32, npy.F64:
	default:
		return fmt.Errorf("semantic vectors %s: expected elements <f4, <f2 or <f8, found %s", s.Path, f.DType)
	}
	if len(f.Shape) != 2 || f.Shape[1] == 0 || f.Fortran {
		return fmt.Errorf("semantic vectors %s: expected shape [captions, dim] in C order, found %v (Fortran order: "+
			"%v)", s.Path, f.Shape, f.Fortran)
	}
	s.rows, s.dim = f.Shape[0], f.Shape[1]
	return nil
}

func (s *Store) check(o OpenOptions) error {
	remedy := "run precompute-svd again for these captions"
	if s.Sidecar != nil && s.Sidecar.Method == "bert" {
		remedy = "run precompute-bert again for these captions"
	}
	if d := s.Sidecar; d != nil && (d.Captions != s.rows || d.Dim != s.dim) {
		return fmt.Errorf("semantic vectors %s are [%d, %d], but %s describes [%d, %d]; remove the description or %s",
			s.Path, s.rows, s.dim, sidecarPath(s.Path), d.Captions, d.Dim, remedy)
	}
	if o.Captions > 0 && o.Captions != s.rows {
		return fmt.Errorf("semantic vectors %s: expected one row for each of %d captions, found %d rows; %s", s.Path,
			o.Captions, s.rows, remedy)
	}
	if o.CaptionFile == "" {
		return nil
	}
	if s.Sidecar == nil {
		if o.Warn != nil {
			o.Warn(s.unknown(o.CaptionFile))
		}
		return nil
	}
	hash, err := integrity.FileSHA256(o.CaptionFile)
	if err != nil {
		return fmt.Errorf("semantic vectors %s: captions: %w", s.Path, err)
	}
	if hash != s.Sidecar.CaptionSHA256 {
		return fmt.Errorf("semantic vectors %s were computed from another %s (SHA-256 %.12s..., the file has "+
			"%.12s...); %s",
			s.Path, filepath.Base(o.CaptionFile), s.Sidecar.CaptionSHA256, hash, remedy)
	}
	return nil
}

// unknown returns the warning that the vectors have no description, with the command that makes both.
func (s *Store) unknown(captions string) error {
	dir, name := filepath.Split(captions)
	command := "precompute-svd"
	if strings.Contains(filepath.Base(s.Path), "_bert") {
		command = "precompute-bert --bert DIR"
	}
	return fmt.Errorf("semantic vectors %s: there is no %s, so it cannot be known whether they belong to the captions "+
		"of %s; 'vsetrain %s --data %s --split %s --out %s --force' makes both", s.Path, sidecarPath(s.Path), captions,
		command, filepath.Clean(dir), strings.TrimSuffix(strings.TrimSuffix(name, filepath.Ext(name)), "_caps"), s.Path)
}

// Rows returns the number of captions.
func (s *Store) Rows() int { return s.rows }

// RowLen returns the length of a vector.
func (s *Store) RowLen() int { return s.dim }

// ReadRow writes the vector of a caption to dst [RowLen]. A value that is not finite is an error.
func (s *Store) ReadRow(dst []float32, row int) error {
	if s.file != nil {
		if err := s.file.ReadRow(dst, row); err != nil {
			return fmt.Errorf("semantic vectors: %w", err)
		}
	} else {
		if row < 0 || row >= s.rows || len(dst) != s.dim {
			return fmt.Errorf("semantic vectors %s [%d, %d]: row %d of length %d is not in it", s.Path, s.rows, s.dim,
				row, len(dst))
		}
		copy(dst, s.data[row*s.dim:])
	}
	for i, v := range dst {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return fmt.Errorf("semantic vectors %s: row %d, column %d is %v; run precompute-svd or precompute-bert "+
				"again", s.Path, row, i, v)
		}
	}
	return nil
}

// Close releases the file.
func (s *Store) Close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
