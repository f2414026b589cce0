package safetensors

import (
	"encoding/binary"
	"fmt"

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
	return from(name, "F32", shape, data)
}

// FromInt32s returns an I32 tensor likewise.
func FromInt32s(name string, shape []int, data []int32) Tensor { return from(name, "I32", shape, data) }

func from(name, dtype string, shape []int, data any) Tensor {
	b, err := binary.Append(nil, binary.LittleEndian, data)
	if err != nil {
		panic(err) // not for numbers of a fixed size
	}
	return Tensor{Name: name, DType: dtype, Shape: shape, Data: b}
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
