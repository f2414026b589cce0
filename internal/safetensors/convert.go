package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Float32s writes the elements into dst, which must have as many, converted to float32 (float64 and integers round to
// nearest).
func (t *Tensor) Float32s(dst []float32) error {
	size, b := sizes[t.DType], t.Data
	if len(dst) != t.Len() || len(b) != size*len(dst) {
		return fmt.Errorf("shape %v with %d bytes of %s does not fit a destination of %d elements", t.Shape, len(b), t.DType, len(dst))
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
			dst[i] = half(le.Uint16(b[2*i:]))
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

// half returns the value of an IEEE 754 half: 1 sign, 5 exponent (bias 15), 10 fraction bits.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0: // zero, subnormal: units of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(frac)*(1.0/(1<<24))))
	case 31: // infinity, NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// FromFloat32s returns an F32 tensor holding a copy of data. Write checks that data fits shape.
func FromFloat32s(name string, shape []int, data []float32) Tensor {
	t := Tensor{Name: name, DType: "F32", Shape: shape, Data: make([]byte, 0, 4*len(data))}
	for _, v := range data {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
	}
	return t
}
