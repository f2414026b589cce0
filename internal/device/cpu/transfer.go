package cpu

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/vec"
)

// Moving data: the host is the device, so uploads and downloads are copies, cut into pieces for all cores.

type memoryLoops[T vec.Float] struct {
	fill fillLoop[T]
	same moveLoop[T, T]
	ints moveLoop[int32, int32]
	f32  moveLoop[T, float32]
	f64  moveLoop[T, float64]
	to32 moveLoop[float32, T]
	to64 moveLoop[float64, T]
}

type fillLoop[T vec.Float] struct {
	ops   *vec.Ops[T]
	dst   []T
	value T
}

func (l *fillLoop[T]) Do(_, i int) {
	lo, hi := block(len(l.dst), i)
	l.ops.Fill(l.dst[lo:hi], l.value)
}

// moveLoop converts and copies element by element.
type moveLoop[D, S int32 | vec.Float] struct {
	dst []D
	src []S
}

func (l *moveLoop[D, S]) Do(_, i int) {
	lo, hi := block(len(l.dst), i)
	dst, src := l.dst[lo:hi], l.src[lo:hi]
	if same, ok := any(src).([]D); ok {
		copy(dst, same)
		return
	}
	for j := range dst {
		dst[j] = D(src[j])
	}
}

func (l *moveLoop[D, S]) start(d interface{ blocks(int, body) }, what string, dst []D, src []S) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("cpu: %s: %d elements into %d", what, len(src), len(dst)))
	}
	l.dst, l.src = dst, src
	d.blocks(len(dst), l)
}

// UploadFloats implements device.Memory.
func (d *dev[T]) UploadFloats(dst device.View, src []float32) {
	d.memory.f32.start(d, "UploadFloats", d.floats("UploadFloats dst", dst, -1), src)
	d.memory.f32.src = nil
}

// UploadDoubles implements device.Memory.
func (d *dev[T]) UploadDoubles(dst device.View, src []float64) {
	d.memory.f64.start(d, "UploadDoubles", d.floats("UploadDoubles dst", dst, -1), src)
	d.memory.f64.src = nil
}

// UploadInts implements device.Memory.
func (d *dev[T]) UploadInts(dst device.View, src []int32) {
	d.memory.ints.start(d, "UploadInts", d.ints("UploadInts dst", dst, -1), src)
	d.memory.ints.src = nil
}

// DownloadFloats implements device.Memory.
func (d *dev[T]) DownloadFloats(dst []float32, src device.View) {
	d.memory.to32.start(d, "DownloadFloats", dst, d.floats("DownloadFloats src", src, -1))
	d.memory.to32.dst = nil
}

// DownloadDoubles implements device.Memory.
func (d *dev[T]) DownloadDoubles(dst []float64, src device.View) {
	d.memory.to64.start(d, "DownloadDoubles", dst, d.floats("DownloadDoubles src", src, -1))
	d.memory.to64.dst = nil
}

// DownloadInts implements device.Memory.
func (d *dev[T]) DownloadInts(dst []int32, src device.View) {
	d.memory.ints.start(d, "DownloadInts", dst, d.ints("DownloadInts src", src, -1))
	d.memory.ints.dst = nil
}

// Fill implements device.Memory.
func (d *dev[T]) Fill(dst device.View, value float64) {
	l := &d.memory.fill
	l.ops, l.dst, l.value = d.ops, d.floats("Fill dst", dst, -1), T(value)
	d.blocks(len(l.dst), l)
}

// Copy implements device.Memory.
func (d *dev[T]) Copy(dst, src device.View) {
	if dst.Present() && dst.Buf.DType() == device.Int32 {
		d.memory.ints.start(d, "Copy", d.ints("Copy dst", dst, -1), d.ints("Copy src", src, -1))
		return
	}
	d.memory.same.start(d, "Copy", d.floats("Copy dst", dst, -1), d.floats("Copy src", src, -1))
}
