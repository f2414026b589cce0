package convert

import (
	"archive/zip"
	"fmt"
	"io"

	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/regular"
)

// A .npz archive is a zip file whose members are .npy arrays. Members are read sequentially because compressed members
// cannot be mapped. The format is the same as in internal/files/npy, restricted to little-endian numbers in C order.

// member is an open array, in an archive or alone.
type member struct {
	*npy.Stream
	name string
	c    io.Closer
}

// mostDeflated is the largest number of bytes that one byte of a deflated member can unpack to (RFC 1951).
const mostDeflated = 1032

// checkSizes returns an error if a member claims more bytes than an archive of the given size can hold.
func checkSizes(f *zip.File, archive int64) error {
	stored, claimed := f.CompressedSize64, f.UncompressedSize64
	switch {
	case stored > uint64(archive):
		return fmt.Errorf("the member claims %d bytes in an archive of %d; copy the file again", stored, archive)
	case f.Method == zip.Store && claimed != stored, f.Method != zip.Store && claimed/mostDeflated > stored:
		return fmt.Errorf("the member claims to unpack %d bytes to %d, which it cannot; copy the file again", stored,
			claimed)
	}
	return nil
}

// openMember starts reading an array of an archive of the given size. The caller closes it. Errors name only the
// member.
func openMember(f *zip.File, archive int64) (*member, error) {
	if err := checkSizes(f, archive); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	c, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	m := &member{name: f.Name, c: c}
	if m.Stream, err = npy.NewStream(c); err == nil {
		have := f.UncompressedSize64 - min(f.UncompressedSize64, uint64(m.Offset))
		if size := uint64(m.Bytes()); size > have {
			err = fmt.Errorf("truncated: shape %v of %s needs %d bytes, the member holds %d", m.Shape, m.DType, size,
				have)
		}
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return m, nil
}

// openArray starts reading the array of a .npy file. The caller closes it.
func openArray(path string) (*member, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	m := &member{name: "features", c: f}
	if m.Stream, err = npy.NewStream(f); err == nil && m.Offset+m.Bytes() != size {
		err = fmt.Errorf("shape %v of %s needs %d bytes of data, found %d; copy or convert the file again", m.Shape,
			m.DType.Name(), m.Bytes(), size-m.Offset)
	}
	if err != nil {
		f.Close()
		return nil, regular.Explain(fmt.Errorf("%s: %w", path, err), path, regular.NPY)
	}
	return m, nil
}

// Close closes the file. A nil member has none.
func (m *member) Close() error {
	if m == nil {
		return nil
	}
	return m.c.Close()
}

// read fills dst with the next elements of an array.
func read[T float32 | float64](m *member, dst []T) error {
	if err := npy.Next(m.Stream, dst); err != nil {
		return fmt.Errorf("%s: truncated data: %w", m.name, err)
	}
	return nil
}
