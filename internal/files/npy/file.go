package npy

import (
	"fmt"
	"io"
	"os"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/mapped"
	"vsetrain/internal/files/regular"
)

// File is an open array. If the system can, it maps the file read-only: reading a row then costs a copy and no system
// call, and the array takes no memory beyond the page cache. Several goroutines may call its methods at once, except
// Close. If the file is shortened while it is open, reads past its new end are errors.
type File struct {
	Path    string
	DType   DType
	Shape   []int // [N, ...]; empty for a scalar
	Fortran bool  // stored in column-major order; only Ints and Float64s read such a file

	f      *os.File     // nil once mapped
	mapped *mapped.File // whole file; nil when not mapped
	offset int64        // of the first element
	rows   int
	rowLen int
}

// Open opens an array file and checks its header, and its size against its shape. It does not check the data of an
// Object array; read them with ReadObjects.
func Open(path string) (*File, error) { return openPath(path, true) }

// OpenUnmapped is Open without mapping, for rows that are copied once: the pages of the file do not count as memory of
// the process.
func OpenUnmapped(path string) (*File, error) { return openPath(path, false) }

func openPath(path string, mapFile bool) (*File, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	file, err := open(f, size, path, mapFile)
	if err != nil {
		f.Close()
		return nil, regular.Explain(fmt.Errorf("npy: %s: %w", path, err), path, regular.NPY)
	}
	return file, nil
}

func open(f *os.File, size int64, path string, mapFile bool) (*File, error) {
	h, err := readHeader(io.NewSectionReader(f, 0, size))
	if err != nil {
		return nil, err
	}
	if err := h.checkSize(size); err != nil {
		return nil, err
	}
	file := &File{Path: path, DType: h.dtype, Shape: h.shape, f: f, offset: h.offset, rows: 1, rowLen: 1}
	if len(h.shape) > 0 {
		file.rows = h.shape[0]
		file.rowLen, err = elements.Count(h.shape[1:], h.dtype.Size())
		if err != nil {
			return nil, err
		}
	}
	file.Fortran = h.fortran && len(h.shape) > 1 // the orders are the same for a vector
	if !mapFile {
		return file, nil
	}
	if m, err := mapped.Map(f, size); err == nil {
		file.mapped, file.f = m, nil
		f.Close()
	}
	return file, nil
}

// checkSize compares the bytes after the header with the shape.
func (h *header) checkSize(size int64) error {
	if h.dtype == Object {
		return nil
	}
	n, err := elements.Count(h.shape, h.dtype.Size())
	if err != nil {
		return err
	}
	want, have := int64(n)*int64(h.dtype.Size()), size-h.offset
	switch {
	case have < want:
		return fmt.Errorf("truncated file: shape %v of %s needs %d bytes of data, found %d; copy or convert the file "+
			"again", h.shape, h.dtype, want, have)
	case have > want:
		return fmt.Errorf("wrong size: shape %v of %s needs %d bytes of data, found %d (several arrays in one file "+
			"are not read)", h.shape, h.dtype, want, have)
	}
	return nil
}

// Rows returns Shape[0], 1 for a scalar.
func (f *File) Rows() int { return f.rows }

// RowLen returns the number of elements of a row: the product of Shape[1:].
func (f *File) RowLen() int { return f.rowLen }

// Close unmaps and closes the file. A second Close does nothing.
func (f *File) Close() error {
	var err error
	if f.mapped != nil {
		err = f.mapped.Close()
	} else if f.f != nil {
		err = f.f.Close()
	}
	f.mapped, f.f = nil, nil
	if err != nil {
		return fmt.Errorf("npy: close %s: %w", f.Path, err)
	}
	return nil
}
