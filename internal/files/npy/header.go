package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"vsetrain/internal/files/elements"
)

const (
	magic = "\x93NUMPY"
	// maxHeader bounds the header text. NumPy refuses more than 10,000 characters by default; a plain array needs about
	// 100.
	maxHeader  = 1 << 16
	maxDims    = 64 // the limit of NumPy 2.0
	alignment  = 64 // of the first element in files we write
	growDigits = 20 // room in the header for the number of rows, which may be set at the end
)

// header describes the elements after it.
type header struct {
	descr   string // as written, for messages
	dtype   DType
	fortran bool
	shape   []int
	offset  int64 // of the first element
}

// readHeader reads the header at the beginning of r. Its errors do not name the file.
func readHeader(r io.Reader) (header, error) {
	var h header
	var pre [12]byte
	if n, err := io.ReadFull(r, pre[:8]); err != nil {
		return h, fmt.Errorf("not a .npy file: it has only %d bytes", n)
	}
	if string(pre[:6]) != magic {
		return h, fmt.Errorf("not a .npy file: it starts with %q, expected %q", pre[:6], magic)
	}
	lenBytes := 4
	switch pre[6] {
	case 1:
		lenBytes = 2
	case 2, 3:
	default:
		return h, fmt.Errorf("unknown .npy format version %d.%d: expected 1.0, 2.0 or 3.0", pre[6], pre[7])
	}
	if _, err := io.ReadFull(r, pre[8:8+lenBytes]); err != nil {
		return h, fmt.Errorf("truncated header: the file ends inside its length field")
	}
	length := binary.LittleEndian.Uint32(pre[8:])
	if length > maxHeader {
		return h, fmt.Errorf("header of %d bytes is too long: at most %d expected (corrupt file?)", length, maxHeader)
	}
	text := make([]byte, length)
	if n, err := io.ReadFull(r, text); err != nil {
		return h, fmt.Errorf("truncated header: expected %d bytes, found %d", length, n)
	}
	h.offset = int64(8 + lenBytes + int(length))
	if err := h.parse(string(text)); err != nil {
		return h, fmt.Errorf("bad header %q: %w", strings.TrimSpace(string(text[:min(len(text), 200)])), err)
	}
	return h, nil
}

// knownTypes maps every spelling of a type that is read to its DType.
var knownTypes = map[string]DType{
	"<f2": F16, "<f4": F32, "<f8": F64, "<i2": I16, "<i4": I32, "<i8": I64, "<u2": U16, "<u4": U32,
	"|i1": I8, "|u1": U8, "|b1": Bool, "<i1": I8, "<u1": U8, "<b1": Bool, "|O": Object, "|O8": Object, "|O4": Object,
}

func lookupType(descr string) (DType, error) {
	if d, ok := knownTypes[descr]; ok {
		return d, nil
	}
	if strings.HasPrefix(descr, ">") {
		return "", fmt.Errorf("big-endian type %q is not read; convert it in Python: np.save(f, a.astype(%q))", descr,
			"<"+descr[1:])
	}
	return "", fmt.Errorf("unsupported element type %q: expected float (<f2, <f4, <f8), integer (<i4, <i8, |u1, ...) "+
		"or object (|O)", descr)
}

// entry is a key of the header with its value: a string, True or False, or a tuple. Python 2 writes u'..', b'..' and
// 3L.
var entry = regexp.MustCompile(`^[ub]?['"](\w+)['"]\s*:\s*(?:[ub]?['"]([^'"\\]*)['"]|(True|False)|\(([^()]*)\)|(\[))` +
	`\s*(,?)\s*`)

// parse reads the dict literal {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
func (h *header) parse(text string) error {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), "{")
	if !ok {
		return fmt.Errorf("expected a Python dict")
	}
	seen := map[string]bool{}
	for rest = strings.TrimSpace(rest); !strings.HasPrefix(rest, "}"); {
		m := entry.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Errorf("expected 'key': value, of a text, True or False or a tuple, found %.40q", rest)
		}
		key, list := m[1], m[5] != ""
		if rest = rest[len(m[0]):]; seen[key] {
			return fmt.Errorf("key %q appears twice", key)
		}
		seen[key] = true
		var err error
		switch {
		case key == "descr" && list:
			return fmt.Errorf("structured arrays are not read: save one field, np.save(f, a['field'])")
		case key == "descr":
			h.descr = m[2]
			h.dtype, err = lookupType(h.descr)
		case key == "fortran_order" && m[3] == "":
			err = fmt.Errorf("expected True or False for the order")
		case key == "fortran_order":
			h.fortran = m[3] == "True"
		case key == "shape" && (list || m[2]+m[3] != ""):
			err = fmt.Errorf("expected a tuple for the shape")
		case key == "shape":
			h.shape, err = dims(m[4])
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err == nil && m[6] == "" && !strings.HasPrefix(rest, "}") {
			err = fmt.Errorf("expected ',' or '}' after the value of %q", key)
		}
		if err != nil {
			return err
		}
	}
	if rest != "}" {
		return fmt.Errorf("text after the dict")
	}
	for _, key := range []string{"descr", "fortran_order", "shape"} {
		if !seen[key] {
			return fmt.Errorf("key %q is missing", key)
		}
	}
	_, err := elements.Count(h.shape, h.dtype.Size())
	return err
}

// dims reads the text between the parentheses of a shape.
func dims(text string) ([]int, error) {
	shape := []int{}
	for s := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(text), ","), ",") {
		if s = strings.TrimSuffix(strings.TrimSpace(s), "L"); s == "" && text == "" {
			break
		}
		d, err := strconv.Atoi(s)
		if err != nil {
			return nil, fmt.Errorf("shape entry %q is not an integer this machine can hold", s)
		}
		if len(shape) == maxDims {
			return nil, fmt.Errorf("shape has more than %d dimensions", maxDims)
		}
		shape = append(shape, d)
	}
	return shape, nil
}

// Header returns the bytes before the elements of a file, for files that are written piece by piece. Its length, a
// multiple of 64, does not depend on the number of rows, so that the number can be set at the end.
func Header(dtype DType, shape []int) ([]byte, error) {
	var dims strings.Builder
	for _, d := range shape {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	tuple := strings.TrimSuffix(dims.String(), " ") // "(3,)" for one dimension
	if len(shape) != 1 {
		tuple = strings.TrimSuffix(tuple, ",")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, tuple)
	length := len(text) + 1
	if len(shape) > 0 {
		length += growDigits - len(strconv.Itoa(shape[0]))
	}
	const pre = len(magic) + 4
	total := (pre + length + alignment - 1) / alignment * alignment
	if total-pre > 0xffff {
		return nil, fmt.Errorf("shape has too many dimensions (%d) for a header", len(shape))
	}
	b := binary.LittleEndian.AppendUint16([]byte(magic+"\x01\x00"), uint16(total-pre))
	return fmt.Appendf(b, "%-*s\n", total-pre-1, text), nil
}
