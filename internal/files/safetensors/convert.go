package safetensors

import (
	"encoding/binary"
	"fmt"

	"vsetrain/internal/files/elements"
)

// Float32s converts the elements to float32, rounded to nearest, into dst, which must have Len elements.
func (t *Tensor) Float32s(dst []float32) error {
	if len(dst) != t.Len() || len(t.Data) != elements.Sizes[t.DType]*len(dst) {
		return fmt.Errorf("shape %v with %d bytes of %s does not fit a destination of %d elements", t.Shape,
			len(t.Data), t.DType, len(dst))
	}
	if !elements.Convert(dst, t.DType, t.Data) {
		return fmt.Errorf("elements of type %s are not converted", t.DType)
	}
	return nil
}

// FromFloat32s returns an F32 tensor with a copy of data. Write checks that data matches shape.
func FromFloat32s(name string, shape []int, data []float32) Tensor {
	return Tensor{Name: name, DType: "F32", Shape: shape, Data: elements.Bytes(data)}
}

// FromInt32s returns an I32 tensor with a copy of data. Write checks that data matches shape.
func FromInt32s(name string, shape []int, data []int32) Tensor {
	return Tensor{Name: name, DType: "I32", Shape: shape, Data: elements.Bytes(data)}
}

// Int32s returns the elements of an I32 tensor.
func (f *File) Int32s(name string) (x []int32, err error) {
	t, ok := f.Tensor(name)
	if !ok || t.DType != "I32" {
		return nil, fmt.Errorf("no tensor %s of int32 values", name)
	}
	x = make([]int32, t.Len())
	return x, f.View(func() error {
		_, err := binary.Decode(t.Data, binary.LittleEndian, x)
		return err
	})
}
