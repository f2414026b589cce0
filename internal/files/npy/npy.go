// Package npy reads and writes NumPy array files (.npy, format versions 1.0, 2.0 and 3.0).
//
// It is the feature store of the project: region features [N, R, D] lie in one array of float32 or float16,
// are mapped read-only into memory, and are handed out row by row ([R, D] of one image) as float32. Only
// little-endian data in C order is read row by row; everything else is refused with the remedy.
//
// Layout of a file: the magic "\x93NUMPY", two version bytes, the header length (2 bytes little-endian in
// version 1, 4 bytes after it), the header (a Python dict literal with descr, fortran_order and shape, padded with
// blanks), then the elements. Source: NEP 1 and numpy/lib/format.py.
//
// Why not sbinet/npyio or kshedden/gonpy: both copy arrays through reflection, and neither maps a file into memory,
// which features of tens of gigabytes need.
package npy

import "fmt"

// DType is the element type of an array in NumPy's notation: byte order, kind, bytes per element.
type DType string

// The element types this package reads. The writer takes F32, F16, F64, I32, I64 and U8.
const (
	F16    DType = "<f2"
	F32    DType = "<f4"
	F64    DType = "<f8"
	I8     DType = "|i1"
	I16    DType = "<i2"
	I32    DType = "<i4"
	I64    DType = "<i8"
	U8     DType = "|u1"
	U16    DType = "<u2"
	U32    DType = "<u4"
	Bool   DType = "|b1"
	Object DType = "|O" // pickled Python objects: see ReadObjects
)

// names are what NumPy calls the types in Python.
var names = map[DType]string{F16: "float16", F32: "float32", F64: "float64", I8: "int8", I16: "int16", I32: "int32",
	I64: "int64", U8: "uint8", U16: "uint16", U32: "uint32", Bool: "bool", Object: "object"}

// Name returns what NumPy calls the type in Python, such as float32 for "<f4".
func (d DType) Name() string {
	if name, ok := names[d]; ok {
		return name
	}
	return string(d)
}

// Size returns the number of bytes of one element, 0 for Object and unknown types.
func (d DType) Size() int {
	switch d {
	case I8, U8, Bool:
		return 1
	case F16, I16, U16:
		return 2
	case F32, I32, U32:
		return 4
	case F64, I64:
		return 8
	}
	return 0
}

// elements returns the product of shape, or an error when a dimension is negative or the data of that many
// elements of size bytes each would not fit in an int.
func elements(shape []int, size int) (int, error) {
	const maxInt = int(^uint(0) >> 1)
	n, zero := 1, false
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		if d == 0 {
			zero = true
			continue
		}
		if n > maxInt/d/max(size, 1) {
			return 0, fmt.Errorf("shape %v is too large: its size in bytes overflows", shape)
		}
		n *= d
	}
	if zero {
		return 0, nil
	}
	return n, nil
}
