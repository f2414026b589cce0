package cpu

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/vec"
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

func (l *moveLoop[D, S]) start(d interface{ blocks(int, par.Body) }, dst []D, src []S) {
	l.dst, l.src = dst, src
	d.blocks(len(dst), l)
	*l = moveLoop[D, S]{} // keep no caller's memory alive
}

func (d *dev[T]) UploadFloats(dst device.View, src []float32) {
	d.checker.Begin("UploadFloats").Host("dst", &dst, device.Float, len(src))
	d.memory.f32.start(d, d.values(dst), src)
}

func (d *dev[T]) UploadDoubles(dst device.View, src []float64) {
	d.checker.Begin("UploadDoubles").Host("dst", &dst, device.Float, len(src))
	d.memory.f64.start(d, d.values(dst), src)
}

func (d *dev[T]) UploadInts(dst device.View, src []int32) {
	d.checker.Begin("UploadInts").Host("dst", &dst, device.Int32, len(src))
	d.memory.ints.start(d, d.integers(dst), src)
}

func (d *dev[T]) DownloadFloats(dst []float32, src device.View) {
	d.checker.Begin("DownloadFloats").Host("src", &src, device.Float, len(dst))
	d.memory.to32.start(d, dst, d.values(src))
}

func (d *dev[T]) DownloadDoubles(dst []float64, src device.View) {
	d.checker.Begin("DownloadDoubles").Host("src", &src, device.Float, len(dst))
	d.memory.to64.start(d, dst, d.values(src))
}

func (d *dev[T]) DownloadInts(dst []int32, src device.View) {
	d.checker.Begin("DownloadInts").Host("src", &src, device.Int32, len(dst))
	d.memory.ints.start(d, dst, d.integers(src))
}

func (d *dev[T]) Fill(a device.Fill) {
	l := &d.memory.fill
	l.ops, l.dst, l.value = d.ops, d.values(a.Dst), T(a.Value)
	d.blocks(len(l.dst), l)
}

func (d *dev[T]) Copy(a device.Copy) {
	if a.Dst.Buf.DType() == device.Int32 {
		d.memory.ints.start(d, d.integers(a.Dst), d.integers(a.Src))
		return
	}
	d.memory.same.start(d, d.values(a.Dst), d.values(a.Src))
}
