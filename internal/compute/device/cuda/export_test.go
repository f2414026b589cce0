package cuda

import (
	"fmt"
	"math"
	"time"
	"unsafe"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

func (d *dev) self() *dev { return d }

// own is the device behind the interface.
func own(d device.Device) *dev { return d.(interface{ self() *dev }).self() }

// Stall keeps the thread of the context busy.
func Stall(d device.Device, t time.Duration) {
	own(d).run(func() error { time.Sleep(t); return nil })
}

// AwaitLeft waits until a call returns that the device has given up.
func AwaitLeft(d device.Device) { <-own(d).done }

// SetTimeout is Options.Timeout of an open device.
func SetTimeout(d device.Device, t time.Duration) { own(d).timeout = t }

// WithoutCopies makes a device of precision bf16 round operands in its products.
func WithoutCopies(d device.Device) device.Device {
	own(d).bf16.on = false
	return d
}

// CopyAll rounds the copy of every value on a device.
func CopyAll(d device.Device) {
	own := own(d)
	for b := range own.buffers {
		if b.dtype == device.Float {
			own.rounded(b.ptr, b.n)
		}
	}
}

// StaleCopies describes the first copy that differs from its value, and is empty if none does.
func StaleCopies(d device.Device) string {
	own := own(d)
	for _, m := range own.bf16.memory {
		if m.half == 0 || len(m.same) == 0 {
			continue
		}
		values, halves := make([]float32, m.n), make([]float32, (m.n+1)/2)
		own.download("StaleCopies", unsafe.Pointer(&values[0]), m.base, m.n)
		own.download("StaleCopies", unsafe.Pointer(&halves[0]), m.half, len(halves))
		for _, s := range m.same {
			for i := s.lo; i < s.hi; i++ {
				if gap := m.alone.missing(i, i+1); gap.lo == gap.hi {
					continue // there is no value
				}
				u := math.Float32bits(values[i])
				want := (u + 0x7fff + u>>16&1) >> 16
				got := math.Float32bits(halves[i/2]) >> (16 * (i % 2)) & 0xffff
				if values[i] != values[i] {
					want = 0x7fff
				}
				if got != want {
					return fmt.Sprintf("element %d of %d is %v, its copy %#x, want %#x", i, m.n, values[i], got, want)
				}
			}
		}
	}
	return ""
}

// Launched returns the kernels that a device starts while f runs, with their names.
func Launched(d device.Device, f func()) (names []string, launches []driver.Launch, err error) {
	p, err := own(d).profiling(func() error { f(); return nil })
	for _, l := range p.launches {
		names = append(names, l.Name)
	}
	return names, p.kernels, err
}

// Raw returns what the memory of a view holds, also if the values exist as copies alone.
func Raw(d device.Device, v device.View) []float32 {
	own, x := own(d), make([]float32, v.N)
	own.download("Raw", unsafe.Pointer(&x[0]), own.pointer(v), v.N)
	return x
}

// DropFollow omits the waits between streams for which drop returns true, until restore is called.
func DropFollow(drop func() bool) (restore func()) {
	old := follow
	follow = func(d *dev, s driver.Stream, e driver.Event) error {
		if drop() {
			return nil
		}
		return old(d, s, e)
	}
	return func() { follow = old }
}

// BLASPath is the cuBLAS that a device uses, empty without one.
func BLASPath(d device.Device) string {
	if b := own(d).blas; b != nil {
		return b.Path()
	}
	return ""
}
