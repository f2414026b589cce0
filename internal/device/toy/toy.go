// Package toy is the smallest device there is: the core (device.Core) in plain loops over float64, a definition in a
// few
// lines for each kernel. composed.Over makes a whole device of it, on which every network trains. It is where a new
// device begins, and what docs/add-a-device.md is written from; it is of no use for training anything large.
package toy

import (
	"fmt"

	"vsetrain/internal/device"
)

// Device is a toy device; it works on one thread.
type Device struct {
	live map[*buffer]struct{}
}

var _ device.Core = (*Device)(nil)

// New opens a toy device.
func New() *Device { return &Device{live: map[*buffer]struct{}{}} }

// Name implements device.Core.
func (d *Device) Name() string { return "toy, fp64" }

// Wide implements device.Core.
func (d *Device) Wide() bool { return true }

// Sync implements device.Core; kernels have finished when they return.
func (d *Device) Sync() error { return nil }

// Close implements device.Core.
func (d *Device) Close() error {
	d.live = nil
	return nil
}

// buffer is memory of a toy device: floats or ints.
type buffer struct {
	f []float64
	i []int32
}

// DType implements device.Buffer.
func (b *buffer) DType() device.DType {
	if b.i != nil {
		return device.Int32
	}
	return device.Float
}

// Len implements device.Buffer.
func (b *buffer) Len() int { return max(len(b.f), len(b.i)) }

// Alloc implements device.Memory.
func (d *Device) Alloc(t device.DType, n int) (device.Buffer, error) {
	if d.live == nil || n < 0 || n > 1<<40 {
		return nil, fmt.Errorf("device: toy: %d elements cannot be allocated", n)
	}
	b := &buffer{}
	if t == device.Int32 {
		b.i = make([]int32, n)
	} else {
		b.f = make([]float64, n)
	}
	d.live[b] = struct{}{}
	return b, nil
}

// Free implements device.Memory.
func (d *Device) Free(b device.Buffer) { delete(d.live, d.own(b)) }

// own returns memory of this device, and panics of any other.
func (d *Device) own(x device.Buffer) *buffer {
	b, ok := x.(*buffer)
	if !ok {
		panic(fmt.Sprintf("toy: memory of another device, or none (%T)", x))
	}
	if _, ok := d.live[b]; !ok {
		panic("toy: memory that was freed")
	}
	return b
}

// floats returns the values of a view; n is how many of them a kernel works on, -1 all. Go checks the bounds.
func (d *Device) floats(v device.View, n int) []float64 {
	b := d.own(v.Buf)
	if n < 0 {
		n = v.N
	}
	if b.i != nil || n > v.N {
		panic(fmt.Sprintf("toy: %d values of type %v, expected %d floats", v.N, b.DType(), n))
	}
	return b.f[v.Off:][:n:n]
}

// exactly is floats for a view that has as many values as another one.
func (d *Device) exactly(v device.View, n int) []float64 {
	if v.N != n {
		panic(fmt.Sprintf("toy: a view of %d values, expected %d", v.N, n))
	}
	return d.floats(v, n)
}

// optional is floats of an argument that may be absent.
func (d *Device) optional(v device.View, n int) []float64 {
	if !v.Present() {
		return nil
	}
	return d.floats(v, n)
}

func (d *Device) ints(v device.View, n int) []int32 {
	b := d.own(v.Buf)
	if n < 0 {
		n = v.N
	}
	if b.f != nil || n > v.N {
		panic(fmt.Sprintf("toy: %d values of type %v, expected %d ints", v.N, b.DType(), n))
	}
	return b.i[v.Off:][:n:n]
}

// UploadFloats implements device.Memory.
func (d *Device) UploadFloats(dst device.View, src []float32) {
	y := d.exactly(dst, len(src))
	for i, x := range src {
		y[i] = float64(x)
	}
}

// UploadDoubles implements device.Memory.
func (d *Device) UploadDoubles(dst device.View, src []float64) { copy(d.exactly(dst, len(src)), src) }

// UploadInts implements device.Memory.
func (d *Device) UploadInts(dst device.View, src []int32) { copy(d.ints(dst, len(src)), src) }

// DownloadFloats implements device.Memory.
func (d *Device) DownloadFloats(dst []float32, src device.View) {
	for i, x := range d.exactly(src, len(dst)) {
		dst[i] = float32(x)
	}
}

// DownloadDoubles implements device.Memory.
func (d *Device) DownloadDoubles(dst []float64, src device.View) { copy(dst, d.exactly(src, len(dst))) }

// DownloadInts implements device.Memory.
func (d *Device) DownloadInts(dst []int32, src device.View) { copy(dst, d.ints(src, len(dst))) }

// Fill implements device.Memory.
func (d *Device) Fill(dst device.View, value float64) {
	y := d.floats(dst, -1)
	for i := range y {
		y[i] = value
	}
}

// Copy implements device.Memory.
func (d *Device) Copy(dst, src device.View) {
	if b := d.own(dst.Buf); b.i != nil {
		copy(d.ints(dst, src.N), d.ints(src, dst.N))
		return
	}
	copy(d.exactly(dst, src.N), d.floats(src, -1))
}
