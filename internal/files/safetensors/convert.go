package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"

	"vsetrain/internal/files/elements"
)

// Float32s writes the elements into dst, which must have as many, converted to float32 (float64 and integers round to
// nearest).
func (t *Tensor) Float32s(dst []float32) error {
	b := t.Data
	if len(dst) != t.Len() || len(b) != elements.Sizes[t.DType]*len(dst) {
		return fmt.Errorf("shape %v with %d bytes of %s does not fit a destination of %d elements", t.Shape, len(b),
			t.DType, len(dst))
	}
	if !elements.Convert(dst, t.DType, b) {
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
