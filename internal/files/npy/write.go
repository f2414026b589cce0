package npy

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/integrity"
)

// Writer streams an array to disk. Close checks the number of elements and replaces the target as a whole; see package
// atomicfile. After an error of a method, call Abort.
type Writer struct {
	path    string
	out     *atomicfile.File // nil once closed, prepared or aborted
	dtype   DType
	shape   []int
	grow    bool // shape[0] is set at Close
	rowLen  int
	written int // elements
	buf     []byte
}

// bufElements is the number of elements converted at a time.
const bufElements = 1 << 16

// Create starts the array file path with elements of dtype (F32, F16, F64, I32, I64 or U8) and the given shape.
func Create(path string, dtype DType, shape []int) (*Writer, error) {
	return create(path, dtype, append([]int(nil), shape...), false)
}

// CreateUnknownRows starts an array of shape [rows, rowShape...], where rows is the number of rows written before
// Close.
func CreateUnknownRows(path string, dtype DType, rowShape []int) (*Writer, error) {
	return create(path, dtype, append([]int{0}, rowShape...), true)
}

func create(path string, dtype DType, shape []int, grow bool) (*Writer, error) {
	switch dtype {
	case F32, F16, F64, I32, I64, U8:
	default:
		return nil, fmt.Errorf("npy: create %s: cannot write element type %q: expected one of <f4 <f2 <f8 <i4 <i8 |u1",
			path, dtype)
	}
	if len(shape) > maxDims {
		return nil, fmt.Errorf("npy: create %s: shape has %d dimensions, more than %d", path, len(shape), maxDims)
	}
	if _, err := elements.Count(shape, dtype.Size()); err != nil {
		return nil, fmt.Errorf("npy: create %s: %w", path, err)
	}
	w := &Writer{path: path, dtype: dtype, shape: shape, grow: grow, rowLen: 1}
	if grow {
		var err error
		if w.rowLen, err = elements.Count(shape[1:], dtype.Size()); err != nil || w.rowLen == 0 {
			return nil, fmt.Errorf("npy: create %s: a row of shape %v cannot be counted", path, shape[1:])
		}
	}
	head, err := Header(dtype, shape)
	if err != nil {
		return nil, fmt.Errorf("npy: create %s: %w", path, err)
	}
	if w.out, err = atomicfile.Create(path); err != nil {
		return nil, fmt.Errorf("npy: %w", err)
	}
	if !grow { // whose header changes
		w.out.Tee(integrity.NewSummer())
	}
	if err := w.write(head); err != nil {
		w.Abort()
		return nil, err
	}
	return w, nil
}

func (w *Writer) write(b []byte) error {
	if _, err := w.out.Write(b); err != nil {
		return fmt.Errorf("npy: %w", err)
	}
	return nil
}

// take counts n more elements.
func (w *Writer) take(n int) error {
	if w.out == nil {
		return fmt.Errorf("npy: write %s: the writer is closed", w.path)
	}
	if !w.grow {
		total, _ := elements.Count(w.shape, 1) // checked by create
		if w.written+n > total {
			return fmt.Errorf("npy: write %s: %d elements are too many: shape %v holds %d", w.path, w.written+n,
				w.shape, total)
		}
	}
	return nil
}

// WriteFloat32 appends elements in C order, converted to the type of the array: float16 rounds to nearest even. A value
// that the type cannot hold (finite but beyond float16, or not a whole number in the range of an integer type) is an
// error.
func (w *Writer) WriteFloat32(v []float32) error {
	if err := w.take(len(v)); err != nil {
		return err
	}
	if w.dtype == F32 && littleEndian {
		w.written += len(v)
		return w.write(memory(v))
	}
	return pieces(w, v, func(b []byte, part []float32) (bad int) {
		if w.dtype == F16 {
			return half.Encode(b, part)
		}
		size := w.dtype.Size()
		return slices.IndexFunc(part, func(x float32) bool {
			ok := w.put(b, float64(x))
			b = b[size:]
			return !ok
		})
	})
}

// WriteInts appends integers (image sizes, ids) to an array of type I32, I64 or U8, or F64 up to 2^53.
func (w *Writer) WriteInts(v []int64) error {
	if err := w.take(len(v)); err != nil {
		return err
	}
	return pieces(w, v, func(b []byte, part []int64) (bad int) {
		size := w.dtype.Size()
		return slices.IndexFunc(part, func(x int64) bool {
			ok := w.dtype == I64
			if ok {
				binary.LittleEndian.PutUint64(b, uint64(x))
			} else if w.dtype != F16 && w.dtype != F32 && int64(float64(x)) == x {
				ok = w.put(b, float64(x))
			}
			b = b[size:]
			return !ok
		})
	})
}

// pieces encodes and writes v piece by piece. encode returns the index of the first element that the type of the array
// cannot hold, -1 if there is none.
func pieces[T float32 | int64](w *Writer, v []T, encode func(b []byte, part []T) (bad int)) error {
	for part := range slices.Chunk(v, bufElements) {
		size := len(part) * w.dtype.Size()
		w.buf = slices.Grow(w.buf[:0], size)
		b := w.buf[:size]
		if bad := encode(b, part); bad >= 0 {
			return fmt.Errorf("npy: write %s: element %d is %v, which %s cannot hold", w.path, w.written+bad, part[bad],
				w.dtype)
		}
		if err := w.write(b); err != nil {
			return err
		}
		w.written += len(part)
	}
	return nil
}

// put writes x at the start of b in a type other than float16 and reports whether the type holds it.
func (w *Writer) put(b []byte, x float64) bool {
	whole := x == math.Trunc(x)
	switch w.dtype {
	case F32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(x)))
		return true
	case F64:
		binary.LittleEndian.PutUint64(b, math.Float64bits(x))
		return true
	case I32:
		binary.LittleEndian.PutUint32(b, uint32(int32(x)))
		return whole && x >= math.MinInt32 && x <= math.MaxInt32
	case I64:
		binary.LittleEndian.PutUint64(b, uint64(int64(x)))
		return whole && x >= -1<<63 && x < 1<<63
	case U8:
		b[0] = uint8(x)
		return whole && x >= 0 && x <= 255
	}
	return false
}

// Close completes the file. If it has not as many elements as its shape, or not only whole rows after
// CreateUnknownRows, Close removes it and returns an error. Closing twice is an error; Abort after Close does nothing.
func (w *Writer) Close() error {
	f, err := w.Prepare()
	if err != nil {
		return err
	}
	if err := integrity.KeepFile(f); err != nil {
		return fmt.Errorf("npy: %w", err)
	}
	return nil
}

// Prepare completes the file like Close and returns it, for a caller that commits it with other files of a set.
func (w *Writer) Prepare() (*atomicfile.File, error) {
	if w.out == nil {
		return nil, fmt.Errorf("npy: close %s: the writer is closed", w.path)
	}
	if err := w.finish(); err != nil {
		w.Abort()
		return nil, fmt.Errorf("npy: close %s: %w", w.path, err)
	}
	f := w.out
	w.out = nil
	return f, nil
}

func (w *Writer) finish() error {
	if !w.grow {
		if total, _ := elements.Count(w.shape, 1); w.written != total {
			return fmt.Errorf("%d elements written, shape %v needs %d", w.written, w.shape, total)
		}
		return nil
	}
	if w.written%w.rowLen != 0 {
		return fmt.Errorf("%d elements written, not a multiple of the row length %d", w.written, w.rowLen)
	}
	w.shape[0] = w.written / w.rowLen
	head, err := Header(w.dtype, w.shape) // of the same length: room is kept for the digits
	if err != nil {
		return err
	}
	_, err = w.out.WriteAt(head, 0)
	return err
}

// Abort removes what has been written. It does nothing after Close.
func (w *Writer) Abort() {
	if w.out != nil {
		w.out.Abort()
		w.out = nil
	}
}

// Stage adds to a set an array that fill writes.
func Stage(set *atomicfile.Set, path string, dtype DType, shape []int, fill func(*Writer) error) error {
	w, err := Create(path, dtype, shape)
	if err != nil {
		return err
	}
	defer w.Abort()
	if err := fill(w); err != nil {
		return err
	}
	f, err := w.Prepare()
	if err == nil {
		set.Add(f)
	}
	return err
}

// WriteFloat32 writes a whole float32 array in C order.
func WriteFloat32(path string, shape []int, data []float32) error {
	w, err := Create(path, F32, shape)
	if err != nil {
		return err
	}
	if err := w.WriteFloat32(data); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}
