// Package reference is the smallest device: it implements the kernels from which all others can be composed
// (device/composed), in plain loops over float64. Both together train every network. It is the starting point of a new
// device, and the example in docs/add-a-kernel.md. It is too slow for real trainings.
package reference

import (
	"fmt"

	"vsetrain/internal/compute/device"
)

// Device is a reference device; it works on one thread.
type Device struct {
	live    map[*buffer]bool
	checker device.Checker
	kernels device.KernelTable
}

var _ device.Device = (*Device)(nil)

// New opens a reference device.
func New() *Device {
	d := &Device{live: map[*buffer]bool{}}
	d.checker, d.kernels = device.Checker{Device: "reference", Memory: d}, device.NewKernelTable(d)
	return d
}

// Do implements device.Device.
func (d *Device) Do(k device.Kernel) bool {
	d.checker.Check(k)
	return d.kernels.Do(k)
}

// Name implements device.Device.
func (d *Device) Name() string { return "reference, fp64" }

// Float64 implements device.Device.
func (d *Device) Float64() bool { return true }

// Sync implements device.Device; kernels have finished when they return.
func (d *Device) Sync() error { return nil }

// Close implements device.Device.
func (d *Device) Close() error {
	d.live = nil
	return nil
}

// buffer is memory of a reference device: floats or ints.
type buffer struct {
	t device.DType
	f []float64
	i []int32
}

// DType implements device.Buffer.
func (b *buffer) DType() device.DType { return b.t }

// Len implements device.Buffer.
func (b *buffer) Len() int { return len(b.f) + len(b.i) }

// Alloc implements device.Device.
func (d *Device) Alloc(t device.DType, n int) (device.Buffer, error) {
	if d.live == nil || n < 0 || n > 1<<40 {
		return nil, fmt.Errorf("device: reference: %d elements cannot be allocated", n)
	}
	b := &buffer{t: t}
	if t == device.Int32 {
		b.i = make([]int32, n)
	} else {
		b.f = make([]float64, n)
	}
	d.live[b] = true
	return b, nil
}

// Free implements device.Device.
func (d *Device) Free(b device.Buffer) {
	if _, _, fault := d.Inspect(b); fault != "" {
		panic("reference: Free: " + fault)
	}
	delete(d.live, b.(*buffer))
}

// Inspect implements device.Inspector.
func (d *Device) Inspect(buf device.Buffer) (t device.DType, n int, fault string) {
	b, ok := buf.(*buffer)
	switch {
	case !ok:
		return 0, 0, "memory of another device"
	case !d.live[b]:
		return 0, 0, "memory that was freed"
	}
	return b.t, b.Len(), ""
}

// floats returns the values of a checked view, nil if it is absent.
func floats(v device.View) []float64 {
	if !v.Present() {
		return nil
	}
	return v.Buf.(*buffer).f[v.Off:][:v.N:v.N]
}

// ints is floats for a checked Int32 view.
func ints(v device.View) []int32 {
	if !v.Present() {
		return nil
	}
	return v.Buf.(*buffer).i[v.Off:][:v.N:v.N]
}

// UploadFloats implements device.Device.
func (d *Device) UploadFloats(dst device.View, src []float32) {
	d.checker.Begin("UploadFloats").Host("dst", &dst, device.Float, len(src))
	y := floats(dst)
	for i, x := range src {
		y[i] = float64(x)
	}
}

// UploadDoubles implements device.Device.
func (d *Device) UploadDoubles(dst device.View, src []float64) {
	d.checker.Begin("UploadDoubles").Host("dst", &dst, device.Float, len(src))
	copy(floats(dst), src)
}

// UploadInts implements device.Device.
func (d *Device) UploadInts(dst device.View, src []int32) {
	d.checker.Begin("UploadInts").Host("dst", &dst, device.Int32, len(src))
	copy(ints(dst), src)
}

// DownloadFloats implements device.Device.
func (d *Device) DownloadFloats(dst []float32, src device.View) {
	d.checker.Begin("DownloadFloats").Host("src", &src, device.Float, len(dst))
	for i, x := range floats(src) {
		dst[i] = float32(x)
	}
}

// DownloadDoubles implements device.Device.
func (d *Device) DownloadDoubles(dst []float64, src device.View) {
	d.checker.Begin("DownloadDoubles").Host("src", &src, device.Float, len(dst))
	copy(dst, floats(src))
}

// DownloadInts implements device.Device.
func (d *Device) DownloadInts(dst []int32, src device.View) {
	d.checker.Begin("DownloadInts").Host("src", &src, device.Int32, len(dst))
	copy(dst, ints(src))
}

func (d *Device) Fill(a device.Fill) {
	y := floats(a.Dst)
	for i := range y {
		y[i] = a.Value
	}
}

func (d *Device) Copy(a device.Copy) {
	if a.Dst.Buf.DType() == device.Int32 {
		copy(ints(a.Dst), ints(a.Src))
		return
	}
	copy(floats(a.Dst), floats(a.Src))
}
