// Package safetensors reads and writes the safetensors format: named tensors after a JSON header, nothing executable.
//
// Layout of a file: the header length n (8 bytes, little-endian), n bytes of JSON
//
//	{"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [D, V], "data_offsets": [begin, end]}, ...}
//
// padded with blanks, then the elements of all tensors, little-endian, C order, without holes. Checkpoints hold
// weights, optimiser state and counters in this format. Source: the format section of the safetensors README.
//
// Why not nlpodyssey/safetensors: it neither maps files into memory nor keeps the order of the metadata.
package safetensors

import (
	"fmt"

	"vsetrain/internal/files/elements"
)

// Tensor is a named array. Data holds its elements in C order, little-endian.
type Tensor struct {
	Name  string
	DType string // F64 F32 F16 BF16 F8_E5M2 F8_E4M3 I64 I32 I16 I8 U64 U32 U16 U8 BOOL
	Shape []int  // empty for a scalar
	Data  []byte
}

// metadataKey is the header entry that is not a tensor.
const metadataKey = "__metadata__"

// Len returns the number of elements.
func (t *Tensor) Len() int { return elements.Len(t.Shape) }

// byteSize returns the bytes that dtype and shape need.
func byteSize(dtype string, shape []int) (int64, error) {
	size, ok := elements.Sizes[dtype]
	if !ok {
		return 0, fmt.Errorf("unknown dtype %q: expected one of F64 F32 F16 BF16 F8_E5M2 F8_E4M3 I64 I32 I16 I8 U64 "+
			"U32 U16 U8 BOOL", dtype)
	}
	n, err := elements.Count(shape, size)
	return int64(n) * int64(size), err
}
