package data

import (
	"fmt"

	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/npy"
)

// openSemantics maps the semantic vectors if the options ask for them.
func openSemantics(s *Split, o *OpenOptions) error {
	path := o.Semantics
	if path == "" {
		return nil
	}
	f, err := npy.Open(path)
	if missing(err) {
		return fmt.Errorf("%s: no semantic vectors; `vsetrain precompute-svd --data %s` writes them", path, s.dir)
	}
	if err != nil {
		return err
	}
	s.files = append(s.files, f)
	if len(f.Shape) != 2 {
		return fmt.Errorf("%s: shape %v; expected [captions, k]", path, f.Shape)
	}
	return s.AttachSemantics(f, path)
}

// SemanticDim returns the length of the semantic vectors; 0 if there are none.
func (s *Split) SemanticDim() int {
	if s.semantics == nil {
		return 0
	}
	return s.semantics.RowLen()
}

// ReadSemantics writes the semantic vector of a caption to dst.
func (s *Split) ReadSemantics(dst []float32, caption int) error {
	if s.semantics == nil {
		return fmt.Errorf("%s: the split was opened without semantic vectors", s.captions.path)
	}
	if err := s.semantics.ReadRow(dst, caption); err != nil {
		return err
	}
	if i := vec.NotFinite(dst); i >= 0 {
		return fmt.Errorf("%s: row %d, element %d is %v: semantic vectors must be finite; run `vsetrain "+
			"precompute-svd` again",
			s.semanticsPath, caption, i, dst[i])
	}
	return nil
}

// AttachSemantics gives the split the semantic vectors of its captions, row c for caption c of the file. path names
// them in errors.
func (s *Split) AttachSemantics(m RowSource, path string) error {
	if m.Rows() != s.layout.captions {
		return fmt.Errorf("%s: %d semantic vectors, but %s has %d captions; run `vsetrain precompute-svd` on this "+
			"data set",
			path, m.Rows(), s.captions.path, s.layout.captions)
	}
	if m.RowLen() < 1 {
		return fmt.Errorf("%s: semantic vectors of length %d", path, m.RowLen())
	}
	s.semantics, s.semanticsPath = m, path
	return nil
}
