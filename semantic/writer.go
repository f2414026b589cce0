package semantic

import (
	"fmt"
	"path/filepath"
	"strings"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/npy"
)

// Writer streams semantic vectors [captions, dim] of float32 to an .npy or text file with a Sidecar. Both files appear,
// complete, at Close.
type Writer struct {
	path string
	side Sidecar
	out  rowWriter
}

type rowWriter interface {
	WriteFloat32([]float32) error
	Prepare() (*atomicfile.File, error)
	Abort()
}

// Create starts the file path for the vectors that side describes: an array if the name ends in .npy, or text in the
// format of the references, about three times as large, if the name ends in .txt.
func Create(path string, side Sidecar) (*Writer, error) {
	if side.Captions < 1 || side.Dim < 1 {
		return nil, fmt.Errorf("write semantic vectors %s: expected at least one row and column, found [%d, %d]", path,
			side.Captions, side.Dim)
	}
	var out rowWriter
	var err error
	switch strings.ToLower(filepath.Ext(path)) {
	case ".npy":
		out, err = npy.Create(path, npy.F32, []int{side.Captions, side.Dim})
	case ".txt":
		out, err = createText(path, side.Captions, side.Dim)
	default:
		return nil, fmt.Errorf("write semantic vectors %s: expected a name ending in .npy or .txt", path)
	}
	if err != nil {
		return nil, fmt.Errorf("semantic vectors: %w", err)
	}
	return &Writer{path, side, out}, nil
}

// Write appends values in row order; it may end within a row.
func (w *Writer) Write(values []float32) error {
	if err := w.out.WriteFloat32(values); err != nil {
		return fmt.Errorf("semantic vectors: %w", err)
	}
	return nil
}

// Abort removes the unfinished files. It does nothing after Close.
func (w *Writer) Abort() { w.out.Abort() }

// Close moves description and vectors to their places. The vectors are last, because vectors without a description are
// accepted for any captions.
func (w *Writer) Close() error {
	set := &atomicfile.Set{}
	defer set.Abort()
	err := w.prepare(set)
	if err == nil {
		err = integrity.Commit(set)
	}
	if err != nil {
		return fmt.Errorf("semantic vectors: %w", err)
	}
	return nil
}

func (w *Writer) prepare(set *atomicfile.Set) error {
	f, err := w.side.prepare(w.path)
	if err != nil {
		w.out.Abort()
		return fmt.Errorf("description: %w", err)
	}
	set.Add(f)
	if f, err = w.out.Prepare(); err != nil {
		return err
	}
	set.Add(f)
	return nil
}
