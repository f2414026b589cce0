package convert

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"vsetrain/internal/files/half"
)

// A .npz archive is a zip file whose members are .npy arrays. Members are read front to back because compressed ones
// cannot be mapped; the format is that of internal/files/npy, restricted to little-endian numbers in C order.

// member is an open array inside an archive.
type member struct {
	name  string
	dtype string
	shape []int
	head  uint64 // bytes before the elements
	r     *bufio.Reader
	c     io.Closer
	buf   []byte
}

var (
	descrField = regexp.MustCompile(`'descr'\s*:\s*'([^']*)'`)
	orderField = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	shapeField = regexp.MustCompile(`'shape'\s*:\s*\(([0-9L,\s]*)\)`)
)

// widths are the element sizes of the types that are read.
var widths = map[string]int{"<f2": 2, "<f4": 4, "<f8": 8, "<i2": 2, "<i4": 4, "<i8": 8, "<u2": 2, "<u4": 4, "|u1": 1,
	"|i1": 1}

// mostDeflated is how many bytes one byte of a deflated member can stand for (RFC 1951).
const mostDeflated = 1032

// checkSizes returns an error for a member that claims more bytes than an archive of the given size can hold.
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

// openMember starts reading an array of an archive of the given size; Close it. Errors name the member only.
func openMember(f *zip.File, archive int64) (*member, error) {
	if err := checkSizes(f, archive); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	c, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	m := &member{name: f.Name, r: bufio.NewReaderSize(c, 1<<16), c: c}
	if err := m.header(); err != nil {
		c.Close()
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	size := uint64(widths[m.dtype])
	for _, d := range m.shape {
		if d > 0 && size > math.MaxInt64/uint64(d) {
			c.Close()
			return nil, fmt.Errorf("%s: shape %v is too large", f.Name, m.shape)
		}
		size *= uint64(d)
	}
	if have := f.UncompressedSize64 - min(f.UncompressedSize64, m.head); size > have {
		c.Close()
		return nil, fmt.Errorf("%s: truncated: shape %v of %s needs %d bytes, the member holds %d", f.Name, m.shape,
			m.dtype, size, have)
	}
	return m, nil
}

func (m *member) header() error {
	var pre [12]byte
	if _, err := io.ReadFull(m.r, pre[:10]); err != nil || string(pre[:6]) != "\x93NUMPY" {
		return fmt.Errorf("expected a .npy array, found something else")
	}
	length := int(binary.LittleEndian.Uint16(pre[8:]))
	if pre[6] > 1 {
		if _, err := io.ReadFull(m.r, pre[10:]); err != nil {
			return fmt.Errorf("truncated header")
		}
		length = int(min(binary.LittleEndian.Uint32(pre[8:]), 1<<17))
	}
	if length > 1<<16 {
		return fmt.Errorf("header longer than %d bytes", 1<<16)
	}
	m.head = uint64(length) + 10
	if pre[6] > 1 {
		m.head += 2
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(m.r, text); err != nil {
		return fmt.Errorf("truncated header: %w", err)
	}
	descr, order, shape := descrField.FindSubmatch(text), orderField.FindSubmatch(text), shapeField.FindSubmatch(text)
	if descr == nil || order == nil || shape == nil {
		return fmt.Errorf("expected a plain array, found the header %q; structured arrays are not read",
			clip(string(text)))
	}
	m.dtype = string(descr[1])
	if widths[m.dtype] == 0 {
		return fmt.Errorf("unsupported element type %q: expected little-endian numbers; save the array as float32",
			m.dtype)
	}
	for _, s := range strings.FieldsFunc(string(shape[1]), func(r rune) bool {
		return strings.ContainsRune(", \t\nL", r)
	}) {
		d, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("dimension %s is too large", clip(s))
		}
		m.shape = append(m.shape, d)
	}
	if string(order[1]) == "True" && len(m.shape) > 1 {
		return fmt.Errorf("array in Fortran order: save np.ascontiguousarray(a)")
	}
	return nil
}

func (m *member) Close() error { return m.c.Close() }

// read fills dst with the next elements as float64.
func (m *member) read(dst []float64) error {
	w := widths[m.dtype]
	for len(dst) > 0 {
		n := min(len(dst), 1<<15)
		if cap(m.buf) < n*w {
			m.buf = make([]byte, n*w)
		}
		b := m.buf[:n*w]
		if _, err := io.ReadFull(m.r, b); err != nil {
			return fmt.Errorf("%s: truncated data: %w", m.name, err)
		}
		for i := range n {
			dst[i] = element(m.dtype, b[i*w:])
		}
		dst = dst[n:]
	}
	return nil
}

// read32 fills dst with the next elements as float32.
func (m *member) read32(dst []float32, wide []float64) error {
	for len(dst) > 0 {
		n := min(len(dst), len(wide))
		if err := m.read(wide[:n]); err != nil {
			return err
		}
		for i, v := range wide[:n] {
			dst[i] = float32(v)
		}
		dst = dst[n:]
	}
	return nil
}

func element(dtype string, b []byte) float64 {
	le := binary.LittleEndian
	switch dtype {
	case "<f2":
		return float64(half.Float32(le.Uint16(b)))
	case "<f4":
		return float64(math.Float32frombits(le.Uint32(b)))
	case "<f8":
		return math.Float64frombits(le.Uint64(b))
	case "<i2":
		return float64(int16(le.Uint16(b)))
	case "<i4":
		return float64(int32(le.Uint32(b)))
	case "<i8":
		return float64(int64(le.Uint64(b)))
	case "<u2":
		return float64(le.Uint16(b))
	case "<u4":
		return float64(le.Uint32(b))
	case "|i1":
		return float64(int8(b[0]))
	}
	return float64(b[0])
}
