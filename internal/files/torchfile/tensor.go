package torchfile

import (
	"fmt"

	"vsetrain/internal/files/elements"
)

// Tensor is a view of a storage. Element types have their names in safetensors.
type Tensor struct {
	DType        string // F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL U16 U32 U64
	Shape        []int  // empty for a scalar
	RequiresGrad bool
	Parameter    bool // an nn.Parameter

	storage *storage
	offset  int   // elements
	stride  []int // elements
}

// TypeName is what messages call a tensor.
func (*Tensor) TypeName() string { return "tensor" }

// NewTensor returns a tensor over data: the elements in C order, little-endian. data is not copied.
func NewTensor(dtype string, shape []int, data []byte) (*Tensor, error) {
	size, ok := elements.Sizes[dtype]
	if !ok {
		return nil, fmt.Errorf("torchfile: unknown element type %q", dtype)
	}
	n, err := elements.Count(shape, size)
	if err != nil {
		return nil, fmt.Errorf("torchfile: %w", err)
	}
	if len(data)/size != n || len(data)%size != 0 {
		return nil, fmt.Errorf("torchfile: %d bytes do not hold shape %v of %s", len(data), shape, dtype)
	}
	s := &storage{size: int64(len(data)), data: data}
	return &Tensor{DType: dtype, Shape: append([]int{}, shape...), storage: s, stride: contiguous(shape)}, nil
}

// FromFloat32s returns an F32 tensor with a copy of data.
func FromFloat32s(shape []int, data []float32) (*Tensor, error) {
	return NewTensor("F32", shape, elements.Bytes(data))
}

// contiguous returns the strides of C order.
func contiguous(shape []int) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= max(shape[i], 1)
	}
	return s
}

// maxRepeat bounds the elements of a view that is larger than its storage (expanded tensors have stride 0).
const maxRepeat = 1 << 24

// newView checks that a view lies within its storage.
func newView(s typed, offset int64, shape, stride []int) (*Tensor, error) {
	n, err := elements.Count(shape, elements.Sizes[s.dtype])
	if err != nil {
		return nil, err
	}
	if len(stride) != len(shape) {
		return nil, fmt.Errorf("shape %v with strides %v", shape, stride)
	}
	if int64(n) > max(s.numel, maxRepeat) {
		return nil, fmt.Errorf("shape %v repeats a storage of %d elements too often", shape, s.numel)
	}
	last, outside := offset, offset < 0 || int64(int(offset)) != offset || n > 0 && offset >= s.numel
	for i, d := range shape {
		step := int64(stride[i])
		if n == 0 || outside || d == 1 || step == 0 {
			continue
		}
		if outside = step < 0 || int64(d-1) > (s.numel-1-last)/step; !outside {
			last += int64(d-1) * step
		}
	}
	if outside {
		return nil, fmt.Errorf("view at %d of shape %v and strides %v lies outside its storage of %d elements", offset,
			shape, stride, s.numel)
	}
	return &Tensor{DType: s.dtype, Shape: shape, storage: s.storage, offset: int(offset), stride: stride}, nil
}

// Len returns the number of elements.
func (t *Tensor) Len() int { return elements.Len(t.Shape) }

// Bytes returns the elements in C order, little-endian, whatever the strides. The caller must not change them.
func (t *Tensor) Bytes() ([]byte, error) {
	n, size := t.Len(), elements.Sizes[t.DType]
	if n == 0 {
		return []byte{}, nil
	}
	last, regular := 0, true
	want := contiguous(t.Shape)
	for i, d := range t.Shape {
		last += (d - 1) * t.stride[i]
		regular = regular && (d == 1 || t.stride[i] == want[i])
	}
	b, err := t.storage.read(int64(t.offset*size), int64((last+1)*size))
	if err != nil {
		return nil, fmt.Errorf("torchfile: %w", err)
	}
	if regular {
		return b, nil
	}
	out := make([]byte, 0, n*size)
	index := make([]int, len(t.Shape))
	for at := 0; ; {
		out = append(out, b[at*size:(at+1)*size]...)
		d := len(index) - 1
		for ; d >= 0; d-- {
			at += t.stride[d]
			if index[d]++; index[d] < t.Shape[d] {
				break
			}
			at -= index[d] * t.stride[d]
			index[d] = 0
		}
		if d < 0 {
			return out, nil
		}
	}
}

// Float64s returns the elements in C order as float64; integers beyond 2^53 are rounded.
func (t *Tensor) Float64s() ([]float64, error) { return convert[float64](t) }

// Float32s returns the elements in C order as float32, rounded to nearest.
func (t *Tensor) Float32s() ([]float32, error) { return convert[float32](t) }

func convert[T float32 | float64](t *Tensor) ([]T, error) {
	b, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	out := make([]T, t.Len())
	elements.Convert(out, t.DType, b)
	return out, nil
}
