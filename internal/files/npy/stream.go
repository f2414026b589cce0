package npy

import (
	"bufio"
	"errors"
	"io"
	"slices"

	"vsetrain/internal/files/elements"
)

// Stream is an array of numbers in C order that is read from beginning to end, such as a compressed member of an
// archive.
type Stream struct {
	DType  DType
	Shape  []int
	Offset int64 // bytes before the elements

	r   io.Reader
	buf []byte
}

// NewStream reads the header of an array. Its errors do not name the file.
func NewStream(r io.Reader) (*Stream, error) {
	in := bufio.NewReaderSize(r, bufElements)
	h, err := readHeader(in)
	switch {
	case err != nil:
		return nil, err
	case h.dtype == Object:
		return nil, errors.New("array of Python objects: expected numbers")
	case h.fortran && len(h.shape) > 1:
		return nil, errors.New("array in Fortran order: save np.ascontiguousarray(a)")
	}
	return &Stream{DType: h.dtype, Shape: h.shape, Offset: h.offset, r: in}, nil
}

// Bytes returns how many bytes the elements take.
func (s *Stream) Bytes() int64 {
	n, _ := elements.Count(s.Shape, s.DType.Size()) // checked by readHeader
	return int64(n) * int64(s.DType.Size())
}

// Next fills dst with the next elements.
func Next[T elements.Number](s *Stream, dst []T) error {
	for part := range slices.Chunk(dst, bufElements) {
		s.buf = slices.Grow(s.buf[:0], len(part)*s.DType.Size())[:len(part)*s.DType.Size()]
		if _, err := io.ReadFull(s.r, s.buf); err != nil {
			return err
		}
		elements.Convert(part, types[s.DType].element, s.buf)
	}
	return nil
}
