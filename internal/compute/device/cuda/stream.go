package cuda

import (
	"fmt"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/files/half"
)

// stage is pinned memory: features are read into it, and the GPU fetches them from it.
type stage struct {
	memory unsafe.Pointer
	n      int
	half   bool
}

// Floats implements device.Stage.
func (s *stage) Floats() []float32 {
	if s.half {
		return nil
	}
	return unsafe.Slice((*float32)(s.memory), s.n)
}

// Halves implements device.Stage.
func (s *stage) Halves() []uint16 {
	if !s.half {
		return nil
	}
	return unsafe.Slice((*uint16)(s.memory), s.n)
}

// bytes is the size of n values.
func (s *stage) bytes(n int) int {
	if s.half {
		return 2 * n
	}
	return 4 * n
}

// NewStage implements device.Streamer. A host without pinned memory is not a failure of the device.
func (d *dev) NewStage(n int, half bool) (device.Stage, error) {
	if n < 1 || n > 1<<60 {
		return nil, fmt.Errorf("device: cuda: pinned memory for %d values", n)
	}
	if d.refuse("NewStage") {
		return nil, d.refused
	}
	if d.full != nil { // commands are dropped until it is reported
		return nil, d.full
	}
	s := &stage{n: n, half: half}
	var lacks error
	d.run(func() error {
		s.memory, lacks = d.drv.AllocHost(s.bytes(n))
		return nil
	})
	if err := d.wait(); err != nil {
		return nil, err
	}
	if lacks != nil {
		return nil, fmt.Errorf("device: cuda: pinned memory of %s: %w", device.FormatBytes(int64(s.bytes(n))), lacks)
	}
	d.stages[s] = struct{}{}
	return s, nil
}

// FreeStage implements device.Streamer.
func (d *dev) FreeStage(s device.Stage) {
	own := d.stage(s)
	delete(d.stages, own)
	d.run(func() error {
		if err := d.idle(); err != nil {
			return err
		}
		return d.drv.FreeHost(own.memory)
	})
}

func (d *dev) stage(s device.Stage) *stage {
	own, ok := s.(*stage)
	if _, alive := d.stages[own]; !ok || !alive {
		panic(fmt.Sprintf("cuda: a stage that this device does not have (%T)", s))
	}
	return own
}

// StreamFloats implements device.Streamer. It uploads if there is no memory for a back buffer.
func (d *dev) StreamFloats(dst device.View, src []float32) {
	d.transfer("StreamFloats").Host("dst", &dst, device.Float, len(src))
	p := d.pointer(dst)
	if len(src) == 0 || d.refuse("StreamFloats") {
		return
	}
	to, bytes := d.backOf(dst, 4*len(src)), 4*len(src)
	if to == nil {
		d.UploadFloats(dst, src)
		return
	}
	c := d.next()
	c.kind, c.host, c.bytes, c.back = commandStream, unsafe.Pointer(unsafe.SliceData(src)), bytes, to
	d.copy(p, to.ptr, bytes)
	d.streamed(to)
	d.wait()
}

// StreamStage implements device.Streamer. It uploads if there is no memory for a back buffer.
func (d *dev) StreamStage(dst device.View, s device.Stage, n int) {
	own := d.stage(s)
	d.transfer("StreamStage").Host("dst", &dst, device.Float, n)
	if n > own.n {
		panic(fmt.Sprintf("cuda: StreamStage: %d values of a stage of %d", n, own.n))
	}
	p := d.pointer(dst)
	if n == 0 || d.refuse("StreamStage") {
		return
	}
	to, bytes := d.backOf(dst, own.bytes(n)), own.bytes(n)
	if to == nil {
		d.UploadFloats(dst, d.decoded(own, n))
		return
	}
	copied := driver.Ptr(0)
	if own.half {
		copied = d.operandCopy(p, n)
	}
	c := d.next()
	c.kind, c.host, c.bytes, c.back, c.pinned = commandStream, own.memory, bytes, to, true
	if own.half {
		head := 0
		if p&15 != 0 {
			head = n
		}
		d.launchVec4("widen_half", head, n).ptr(p, copied, to.ptr).long(head, n)
		d.fresh(copied, p, n)
	} else {
		d.copy(p, to.ptr, bytes)
	}
	d.streamed(to)
}

// streamed notes that the calls so far have read a back buffer.
func (d *dev) streamed(to *backBuffer) {
	c := d.next()
	c.kind, c.back = commandStreamed, to
}

// decoded returns the first n values of a stage.
func (d *dev) decoded(s *stage, n int) []float32 {
	if !s.half {
		return s.Floats()[:n]
	}
	x := d.narrowed(n)
	half.Decode(x, unsafe.Slice((*byte)(s.memory), 2*n))
	return x
}

// backOf returns the back buffer of a buffer with at least the given number of bytes, nil if the GPU has no room.
func (d *dev) backOf(v device.View, bytes int) *backBuffer {
	to := &v.Buf.(*buffer).back
	if to.bytes >= bytes {
		return to
	}
	d.run(func() error {
		if err := d.idle(); err != nil {
			return err
		}
		return to.close(d.drv)
	})
	p, err := d.allocate(bytes)
	if err != nil {
		return nil
	}
	to.ptr, to.bytes = p, bytes
	return to
}
