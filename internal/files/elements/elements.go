// Package elements describes the element types of arrays in files, by their names in safetensors, and converts
// little-endian elements to Go numbers.
package elements

import (
	"encoding/binary"
	"fmt"
	"math"

	"vsetrain/internal/files/half"
)

// Sizes holds the size in bytes of an element of each type.
var Sizes = map[string]int{
	"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E5M2": 1, "F8_E4M3": 1,
	"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1,
}

// Count returns the product of shape. It is an error if a dimension is negative, or if the bytes of that many elements
// of size bytes each overflow an int.
func Count(shape []int, size int) (int, error) {
	n, zero := 1, false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		case d == 0:
			zero = true
		case n > math.MaxInt/d/max(size, 1):
			return 0, fmt.Errorf("shape %v is too large: its size in bytes overflows", shape)
		default:
			n *= d
		}
	}
	if zero {
		return 0, nil
	}
	return n, nil
}

// Len returns the number of elements of a shape that Count accepts.
func Len(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// Bytes returns numbers, a slice of a type of fixed size, as little-endian elements.
func Bytes(numbers any) []byte {
	b, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err != nil {
		panic(err) // another type
	}
	return b
}

// Number is a type that elements are converted to.
type Number interface{ int64 | float32 | float64 }

// Convert converts len(dst) elements of b as Go does: floats to the nearest float32, integers beyond 2^53 to the
// nearest float64, floats towards zero to integers. It returns false for unknown types.
func Convert[T Number](dst []T, dtype string, b []byte) bool {
	le := binary.LittleEndian
	var at func(i int) T
	switch dtype {
	case "F64":
		at = func(i int) T { return T(math.Float64frombits(le.Uint64(b[8*i:]))) }
	case "F32":
		for i := range dst {
			dst[i] = T(math.Float32frombits(le.Uint32(b[4*i:])))
		}
		return true
	case "F16":
		at = func(i int) T { return T(half.Float32(le.Uint16(b[2*i:]))) }
	case "BF16": // the upper half of a float32
		at = func(i int) T { return T(math.Float32frombits(uint32(le.Uint16(b[2*i:])) << 16)) }
	case "I64":
		at = func(i int) T { return T(int64(le.Uint64(b[8*i:]))) }
	case "I32":
		at = func(i int) T { return T(int32(le.Uint32(b[4*i:]))) }
	case "I16":
		at = func(i int) T { return T(int16(le.Uint16(b[2*i:]))) }
	case "I8":
		at = func(i int) T { return T(int8(b[i])) }
	case "U64":
		at = func(i int) T { return T(le.Uint64(b[8*i:])) }
	case "U32":
		at = func(i int) T { return T(le.Uint32(b[4*i:])) }
	case "U16":
		at = func(i int) T { return T(le.Uint16(b[2*i:])) }
	case "U8", "BOOL":
		at = func(i int) T { return T(b[i]) }
	default:
		return false
	}
	for i := range dst {
		dst[i] = at(i)
	}
	return true
}
