package semantic

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/internal/npy"
)

// Writer streams semantic vectors [captions, dim] of float32 to an .npy or text file with a Sidecar. The file appears,
// whole, at Close.
type Writer struct {
	path string
	side Sidecar
	out  rowWriter
}

type rowWriter interface {
	WriteFloat32([]float32) error
	Close() error
	Abort()
}

// Create starts the file path for the vectors that side describes: an array where the name ends in .npy, the references'
// text, which takes about three times the room, where it ends in .txt.
func Create(path string, side Sidecar) (*Writer, error) {
	if side.Captions < 1 || side.Dim < 1 {
		return nil, fmt.Errorf("write semantic vectors %s: expected at least one row and column, found [%d, %d]", path, side.Captions, side.Dim)
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
		return nil, fmt.Errorf("write semantic vectors: %w", err)
	}
	return &Writer{path, side, out}, nil
}

// Write appends whole or part rows.
func (w *Writer) Write(values []float32) error {
	if err := w.out.WriteFloat32(values); err != nil {
		return fmt.Errorf("write semantic vectors: %w", err)
	}
	return nil
}

// Abort removes what has been written. It does nothing after Close.
func (w *Writer) Abort() { w.out.Abort() }

// Close completes the file. The old description goes before the new vectors come and the new one follows them, so that
// no description ever lies beside vectors of other captions.
func (w *Writer) Close() error {
	if err := os.Remove(sidecarPath(w.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.out.Abort()
		return fmt.Errorf("write semantic vectors %s: old description: %w", w.path, err)
	}
	if err := w.out.Close(); err != nil {
		return fmt.Errorf("write semantic vectors: %w", err)
	}
	if err := w.side.write(w.path); err != nil {
		return fmt.Errorf("write semantic vectors %s: description: %w", w.path, err)
	}
	return nil
}
