package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"vsetrain/internal/files/half"
)

// Float32s writes the elements into dst, which must have as many, converted to float32 (float64 and integers round to
// nearest).
func (t *Tensor) Float32s(dst []float32) error {
	size, b := sizes[t.DType], t.Data
	if len(dst) != t.Len() || len(b) != size*len(dst) {
		return fmt.Errorf("shape %v with %d bytes of %s does not fit a destination of %d elements", t.Shape, len(b),
			t.DType, len(dst))
	}
	le := binary.LittleEndian
	switch t.DType {
	case "F32":
		for i := range dst {
			dst[i] = math.Float32frombits(le.Uint32(b[4*i:]))
		}
	case "F64":
		for i := range dst {
			dst[i] = float32(math.Float64frombits(le.Uint64(b[8*i:])))
		}
	case "BF16": // the upper half of a float32
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(le.Uint16(b[2*i:])) << 16)
		}
	case "F16":
		for i := range dst {
			dst[i] = half.Float32(le.Uint16(b[2*i:]))
		}
	case "I64":
		for i := range dst {
			dst[i] = float32(int64(le.Uint64(b[8*i:])))
		}
	case "I32":
		for i := range dst {
			dst[i] = float32(int32(le.Uint32(b[4*i:])))
		}
	case "I16":
		for i := range dst {
			dst[i] = float32(int16(le.Uint16(b[2*i:])))
		}
	case "I8":
		for i := range dst {
			dst[i] = float32(int8(b[i]))
		}
	case "U64":
		for i := range dst {
			dst[i] = float32(le.Uint64(b[8*i:]))
		}
	case "U32":
		for i := range dst {
			dst[i] = float32(le.Uint32(b[4*i:]))
		}
	case "U16":
		for i := range dst {
			dst[i] = float32(le.Uint16(b[2*i:]))
		}
	case "U8", "BOOL":
		for i := range dst {
			dst[i] = float32(b[i])
		}
	default:
		return fmt.Errorf("elements of type %s are not converted", t.DType)
	}
	return nil
}

// FromFloat32s returns an F32 tensor holding a copy of data. Write checks that data fits shape.
func FromFloat32s(name string, shape []int, data []float32) Tensor {
	t := Tensor{Name: name, DType: "F32", Shape: shape, Data: make([]byte, 0, 4*len(data))}
	for _, v := range data {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}
