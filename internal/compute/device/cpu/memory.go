package cpu

import (
	"fmt"
	"math"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/pages"
	"vsetrain/internal/compute/vec"
)

// buffer is memory of a device, 64-byte aligned. Large buffers are mapped pages of the operating system.
type buffer[T vec.Float] struct {
	owner  *dev[T]
	dtype  device.DType
	n      int
	f      []T
	i      []int32
	pages  []byte // to unmap; nil for memory of the Go heap
	freed  bool
	shared bool // the elements are the host's
}

func (b *buffer[T]) DType() device.DType { return b.dtype }

func (b *buffer[T]) Len() int { return b.n }

// Values are the elements of a Float buffer, for ranks that send them to others.
func (b *buffer[T]) Values() any { return b.f }

func (b *buffer[T]) release() {
	pages.Free(b.pages)
	b.f, b.i, b.pages, b.freed = nil, nil, nil, true
}

const alignment = pages.Alignment // bytes

func (d *dev[T]) Alloc(t device.DType, n int) (device.Buffer, error) {
	if d.closed {
		return nil, fmt.Errorf("device: cpu: allocation of %d elements on a closed device", n)
	}
	size := int(unsafe.Sizeof(*new(T)))
	if t == device.Int32 {
		size = 4
	}
	if n < 0 || n > (math.MaxInt-2*alignment)/size {
		return nil, fmt.Errorf("device: cpu: %d elements cannot be allocated", n)
	}
	b := &buffer[T]{owner: d, dtype: t, n: n}
	var err error
	if t == device.Int32 {
		b.i, b.pages, err = pages.New[int32](n)
	} else {
		b.f, b.pages, err = pages.New[T](n)
	}
	if err != nil {
		return nil, fmt.Errorf("device: cpu: allocate %d MB: %w", n*size>>20, err)
	}
	d.buffers[b] = struct{}{}
	return b, nil
}

// scratch returns n elements of *s, growing it where it is too small. The contents are arbitrary.
func scratch[T vec.Float](s *[]T, n int) []T {
	if cap(*s) < n {
		raw := make([]T, n+alignment/int(unsafe.Sizeof(*new(T))))
		shift := -int(uintptr(unsafe.Pointer(&raw[0]))) & (alignment - 1) / int(unsafe.Sizeof(*new(T)))
		*s = raw[shift : shift+n : shift+n]
	}
	return (*s)[:n]
}

func (d *dev[T]) Free(b device.Buffer) {
	own, ok := b.(*buffer[T])
	if !ok || own.owner != d {
		panic(fmt.Sprintf("cpu: Free: memory of another device (%T)", b))
	}
	if own.freed {
		panic("cpu: Free: memory that was freed before")
	}
	own.release()
	delete(d.buffers, own)
	if d.holds(device.ViewOf(b)) {
		delete(d.held, own)
		d.gru.forget()
		d.directions.forget()
	}
}

// Freeze implements device.Freezer for the weights of GRUs: a batch of a few captions multiplies them as long as it
// takes to pack them.
func (d *dev[T]) Freeze(b device.Buffer) {
	if own, ok := b.(*buffer[T]); ok && own.owner == d && !own.freed {
		d.held[own] = struct{}{}
	}
}

// holds reports whether a view lies in memory whose values stay as they are.
func (d *dev[T]) holds(v device.View) bool {
	own, ok := v.Buf.(*buffer[T])
	if !ok {
		return false
	}
	_, held := d.held[own]
	return held
}

// ViewHost implements device.HostViewer for float32 devices.
func (d *dev[T]) ViewHost(old device.View, host []float32) (device.View, bool) {
	f, ok := any(host).([]T)
	if !ok {
		return device.View{}, false
	}
	b, ok := old.Buf.(*buffer[T])
	if !ok || b.owner != d || !b.shared {
		b = &buffer[T]{owner: d, dtype: device.Float, shared: true}
	}
	b.f, b.n = f, len(f)
	return device.ViewOf(b), true
}
