// Package npy reads and writes NumPy array files (.npy, format versions 1.0, 2.0 and 3.0).
//
// Features of regions [N, R, D] are one array of float32 or float16. A File maps it into memory read-only and returns
// it row by row ([R, D] of one image) as float32. Rows must be little-endian and in C order; errors say how to convert
// other arrays.
//
// Layout of a file: the magic "\x93NUMPY", two version bytes, the length of the header (little-endian, 2 bytes in
// version 1 and 4 in later ones), the header (a Python dict literal with descr, fortran_order and shape, padded with
// blanks), then the elements. Source: NEP 1 and numpy/lib/format.py.
//
// Why not sbinet/npyio or kshedden/gonpy: both copy arrays through reflection, and neither maps a file into memory,
// which features of tens of gigabytes need.
package npy

import (
	"cmp"

	"vsetrain/internal/files/elements"
)

// DType is the element type of an array in NumPy's notation: byte order, kind, bytes per element.
type DType string

// The element types that this package reads. It writes F32, F16, F64, I32, I64 and U8.
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

// types are the names of the types in safetensors and in NumPy.
var types = map[DType]struct{ element, name string }{
	F16: {"F16", "float16"}, F32: {"F32", "float32"}, F64: {"F64", "float64"},
	I8: {"I8", "int8"}, I16: {"I16", "int16"}, I32: {"I32", "int32"}, I64: {"I64", "int64"},
	U8: {"U8", "uint8"}, U16: {"U16", "uint16"}, U32: {"U32", "uint32"}, Bool: {"BOOL", "bool"}, Object: {"", "object"},
}

// Name returns NumPy's name of the type, such as float32 for "<f4".
func (d DType) Name() string { return cmp.Or(types[d].name, string(d)) }

// Whole reports whether the type is an integer or bool.
func (d DType) Whole() bool { return d != F16 && d != F32 && d != F64 && d != Object }

// Size returns the number of bytes of one element, 0 for Object and unknown types.
func (d DType) Size() int { return elements.Sizes[types[d].element] }
