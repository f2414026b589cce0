package semantic

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Existing describes the vectors in the file path; it returns nil if there is no such file. For a file without a
// description, only the numbers of rows and columns are known.
func Existing(path string) (*Sidecar, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s, err := Open(path, OpenOptions{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Sidecar == nil {
		s.Sidecar = &Sidecar{Captions: s.rows, Dim: s.dim}
	}
	return s.Sidecar, nil
}

// Computes reports whether Precompute would write the described vectors again, up to differences within the tolerance.
// hash is the hash of the captions (ReadCaptions).
func (o Options) Computes(d *Sidecar, hash string) bool {
	return d.Method == "svd" && d.CaptionSHA256 == hash && d.Dim == min(o.K, d.Terms-1)
}

// String names the number of vectors, their length and their source.
func (d *Sidecar) String() string {
	s := fmt.Sprintf("%d vectors of %d values", d.Captions, d.Dim)
	if d.Method != "" {
		s += " (" + d.Method
		if d.Pool != "" {
			s += ", " + d.Pool
		}
		s += ")"
	}
	return s
}
