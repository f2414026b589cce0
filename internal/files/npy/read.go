package npy

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"unsafe"

	"vsetrain/internal/files/elements"
	"vsetrain/internal/files/half"
	"vsetrain/internal/files/mapped"
	"vsetrain/internal/files/regular"
)

// littleEndian reports whether this machine has the byte order of the files.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// scratch holds byte buffers for rows of files that are not mapped.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// ReadRow writes row (for region features: one image, [R, D]) into dst as float32. dst must have RowLen elements. The
// type must be float16, float32 or float64 (rounded to nearest). It allocates nothing on a mapped file.
func (f *File) ReadRow(dst []float32, row int) error {
	if f.DType != F32 && f.DType != F16 && f.DType != F64 {
		return fmt.Errorf("npy: %s: expected rows of float16, float32 or float64, found %s; %s", f.Path, f.DType.Name(),
			f.Rewrite())
	}
	return f.readRow(len(dst), row, func(b []byte) { f.decodeRow(dst, b) })
}

// ReadHalves reads a row of an array of float16 as its bits; dst must have RowLen elements.
func (f *File) ReadHalves(dst []uint16, row int) error {
	if f.DType != F16 {
		return fmt.Errorf("npy: %s: expected rows of float16, found %s", f.Path, f.DType.Name())
	}
	return f.readRow(len(dst), row, func(b []byte) {
		if littleEndian {
			copy(memory(dst), b)
			return
		}
		for i := range dst {
			dst[i] = binary.LittleEndian.Uint16(b[2*i:])
		}
	})
}

// EqualRows reports whether two rows have the same bytes, and whether these are all zero.
func (f *File) EqualRows(i, j int) (equal, zero bool, err error) {
	var second error
	err = f.readRow(f.rowLen, i, func(a []byte) {
		second = f.readRow(f.rowLen, j, func(b []byte) {
			equal = bytes.Equal(a, b)
			zero = equal && (len(a) == 0 || a[0] == 0 && bytes.Equal(a[1:], a[:len(a)-1]))
		})
	})
	return equal, zero, cmp.Or(err, second)
}

// readRow calls take with the bytes of a row of n elements.
func (f *File) readRow(n, row int, take func([]byte)) (err error) {
	switch {
	case f.Fortran:
		return fmt.Errorf("npy: %s: array is stored in Fortran order; %s", f.Path, f.Rewrite())
	case row < 0 || row >= f.rows:
		return fmt.Errorf("npy: %s: row %d is out of range: the file has %d rows", f.Path, row, f.rows)
	case n != f.rowLen:
		return fmt.Errorf("npy: %s: destination has %d elements, a row has %d", f.Path, n, f.rowLen)
	}
	size := f.rowLen * f.DType.Size()
	at := f.offset + int64(row)*int64(size)
	if f.mapped != nil {
		defer f.mapped.Recover(mapped.Watch(), &err)
		take(f.mapped.Bytes()[at : at+int64(size)])
		return nil
	}
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	if cap(*buf) < size {
		*buf = make([]byte, size)
	}
	b := (*buf)[:size]
	if err := f.readAt(b, at); err != nil {
		return err
	}
	take(b)
	return nil
}

// ReadScaled reads a row of numbers of any type, times scale and rounded to float32, into dst.
func (f *File) ReadScaled(dst []float32, row int, scale float64) error {
	if f.DType == Object || f.Fortran {
		return fmt.Errorf("npy: %s: expected numbers in C order; %s", f.Path, f.Rewrite())
	}
	v := make([]float64, len(dst))
	return f.readRow(len(dst), row, func(b []byte) {
		convert(f, v, b)
		for i, x := range v {
			dst[i] = float32(scale * x)
		}
	})
}

// Whole reports whether the elements are integers.
func (f *File) Whole() bool { return f.DType.Whole() }

// Rewrite says how to convert an array to one whose rows ReadRow can read.
func (f *File) Rewrite() string {
	const in = "rewrite it in Python: "
	switch f.DType {
	case F16, F32, F64:
		return in + "np.save(f, np.ascontiguousarray(a))"
	case Object:
		return in + "np.save(f, np.stack(a).astype(np.float32))"
	}
	return "its numbers stand for others: `vsetrain data convert " + regular.Quote(f.Path) + " --out NEW.npy --scale " +
		"S`, with S the scale they were made with, multiplies them; 1 takes them as they are"
}

func (f *File) readAt(b []byte, at int64) error {
	if f.f == nil {
		return fmt.Errorf("npy: %s: the file is closed", f.Path)
	}
	if n, err := f.f.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("npy: read %s at byte %d: %w", f.Path, at, err)
	}
	return nil
}

func (f *File) decodeRow(dst []float32, src []byte) {
	switch {
	case f.DType == F16:
		half.Decode(dst, src)
	case f.DType == F32 && littleEndian:
		copy(memory(dst), src)
	default:
		convert(f, dst, src)
	}
}

// memory returns the bytes of numbers in memory.
func memory[T uint16 | float32](x []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), len(x)*int(unsafe.Sizeof(*new(T))))
}

func convert[T elements.Number](f *File, dst []T, src []byte) {
	elements.Convert(dst, types[f.DType].element, src)
}

// Ints returns the whole array in C order as int64. Floats must be whole numbers, as in many arrays of image sizes. It
// is for small files: the copy takes 8 bytes per element.
func (f *File) Ints() ([]int64, error) {
	if !f.Whole() {
		v, err := f.Float64s()
		if err != nil {
			return nil, err
		}
		for i, x := range v {
			if x != math.Trunc(x) || x < -1<<63 || x >= 1<<63 {
				return nil, fmt.Errorf("npy: %s: element %d is %v: expected an integer", f.Path, i, x)
			}
		}
	}
	return whole[int64](f)
}

// Float64s returns the whole array in C order as float64; integers beyond 2^53 are rounded. It is for small files.
func (f *File) Float64s() ([]float64, error) { return whole[float64](f) }

func whole[T elements.Number](f *File) (out []T, err error) {
	b, err := f.all()
	if err != nil {
		return nil, err
	}
	defer f.mapped.Recover(mapped.Watch(), &err)
	out = make([]T, f.rows*f.rowLen)
	convert(f, out, b)
	return inCOrder(f, out), nil
}

// all returns the bytes of all elements.
func (f *File) all() ([]byte, error) {
	if f.DType == Object {
		return nil, fmt.Errorf("npy: %s: array of Python objects: expected numbers", f.Path)
	}
	size := f.rows * f.rowLen * f.DType.Size()
	if f.mapped != nil {
		return f.mapped.Bytes()[f.offset : f.offset+int64(size)], nil
	}
	b := make([]byte, size)
	return b, f.readAt(b, f.offset)
}

// inCOrder returns v, which is in the order of the file, in C order.
func inCOrder[T any](f *File, v []T) []T {
	if !f.Fortran || len(v) == 0 {
		return v
	}
	out := make([]T, len(v))
	index := make([]int, len(f.Shape)) // of the C-order element, last dimension fastest
	for c := range out {
		at, stride := 0, 1
		for d, i := range index {
			at += i * stride
			stride *= f.Shape[d]
		}
		out[c] = v[at]
		for d := len(index) - 1; d >= 0; d-- {
			if index[d]++; index[d] < f.Shape[d] {
				break
			}
			index[d] = 0
		}
	}
	return out
}
