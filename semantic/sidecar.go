package semantic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
)

// Sidecar describes a file of semantic vectors, and says which captions the rows belong to. It is the separate file
// FILE.json, so that the .npy stays plain.
type Sidecar struct {
	Format        string    `json:"format"`         // sidecarFormat
	Method        string    `json:"method"`         // "svd", "bert"
	Pool          string    `json:"pool,omitempty"` // for BERT: pooler, cls, mean
	CaptionSHA256 string    `json:"caption_sha256"`
	Captions      int       `json:"captions"` // rows
	Dim           int       `json:"dim"`      // columns
	Terms         int       `json:"terms,omitempty"`
	Sigma         []float64 `json:"singular_values,omitempty"`
}

const sidecarFormat = "vsetrain semantic vectors 1"

// maxSidecar is the largest size of a sidecar in bytes.
const maxSidecar = 1 << 20

func sidecarPath(path string) string { return path + ".json" }

// readSidecar returns the description of the vectors in path, nil if there is none.
func readSidecar(path string) (*Sidecar, error) {
	name := sidecarPath(path)
	b, err := regular.ReadFile(name, maxSidecar, "a description")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s := new(Sidecar)
	if err == nil {
		if err = json.NewDecoder(bytes.NewReader(b)).Decode(s); err == nil && s.Format != sidecarFormat {
			err = fmt.Errorf("expected format %q, found %q", sidecarFormat, s.Format)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("description of semantic vectors %s: %w; remove it, or compute the vectors again", name,
			err)
	}
	return s, nil
}

// prepare writes the description of the vectors in path. The caller commits it together with the vectors.
func (s *Sidecar) prepare(path string) (*atomicfile.File, error) {
	s.Format = sidecarFormat
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, err
	}
	f, err := atomicfile.Create(sidecarPath(path))
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		f.Abort()
		return nil, err
	}
	return f, nil
}
