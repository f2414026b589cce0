package cpu

import (
	"fmt"

	"vsetrain/internal/device"
)

// floats returns the first n elements of a Float view of this device, with their capacity cut so that no kernel can
// reach beyond them. n < 0 means the whole view. what names the argument in the message of a panic.
func (d *dev[T]) floats(what string, v device.View, n int) []T {
	b := d.buffer(what, v, device.Float, n)
	if n < 0 {
		n = v.N
	}
	return b.f[v.Off : v.Off+n : v.Off+n]
}

// exactly is floats for a view that must have n elements.
func (d *dev[T]) exactly(what string, v device.View, n int) []T {
	if v.Present() && v.N != n {
		panic(fmt.Sprintf("cpu: %s: a view of %d elements, expected %d", what, v.N, n))
	}
	return d.floats(what, v, n)
}

// optional is floats for an argument that may be absent, then nil.
func (d *dev[T]) optional(what string, v device.View, n int) []T {
	if !v.Present() {
		return nil
	}
	return d.floats(what, v, n)
}

func (d *dev[T]) ints(what string, v device.View, n int) []int32 {
	b := d.buffer(what, v, device.Int32, n)
	if n < 0 {
		n = v.N
	}
	return b.i[v.Off : v.Off+n : v.Off+n]
}

func (d *dev[T]) optionalInts(what string, v device.View, n int) []int32 {
	if !v.Present() {
		return nil
	}
	return d.ints(what, v, n)
}

// buffer checks that a view lies in a live buffer of this device and holds at least n elements.
func (d *dev[T]) buffer(what string, v device.View, t device.DType, n int) *buffer[T] {
	if v.Buf == nil {
		panic(fmt.Sprintf("cpu: %s is absent, expected a view of %d elements", what, max(n, 0)))
	}
	b, ok := v.Buf.(*buffer[T])
	if !ok || b.owner != d {
		panic(fmt.Sprintf("cpu: %s: memory of another device (%T)", what, v.Buf))
	}
	if b.freed {
		panic(fmt.Sprintf("cpu: %s: memory that was freed", what))
	}
	if b.dtype != t {
		panic(fmt.Sprintf("cpu: %s: %v elements, expected %v", what, b.dtype, t))
	}
	if v.Off < 0 || v.N < 0 || v.Off > b.n-v.N {
		panic(fmt.Sprintf("cpu: %s: elements [%d:%d] of a buffer of %d", what, v.Off, v.Off+v.N, b.n))
	}
	if v.N < n {
		panic(fmt.Sprintf("cpu: %s: a view of %d elements, expected at least %d", what, v.N, n))
	}
	return b
}

// positive panics unless every size is at least 1.
func positive(what string, sizes ...int) {
	for _, n := range sizes {
		if n < 1 {
			panic(fmt.Sprintf("cpu: %s: size %d, expected at least 1", what, n))
		}
	}
}
