package cuda

import (
	"fmt"

	"vsetrain/internal/device"
	"vsetrain/internal/device/cuda/driver"
)

// floats returns the address of a Float view of this device with at least n elements; n < 0 means the whole view. what names the argument in
// the message of a panic.
func (d *dev) floats(what string, v device.View, n int) driver.Ptr {
	return d.address(what, v, device.Float, n)
}

// argument is floats for an argument of a kernel whose name is in two parts: they are joined for the message only.
func (d *dev) argument(what, name string, v device.View, n int) driver.Ptr {
	if b, ok := v.Buf.(*buffer); ok && b.owner == d && !b.freed && b.dtype == device.Float && v.Off >= 0 && v.N >= n && v.Off <= b.n-v.N {
		return d.floats(name, v, n)
	}
	return d.floats(what+" "+name, v, n)
}

func (d *dev) optionalArgument(what, name string, v device.View, n int) driver.Ptr {
	if !v.Present() {
		return 0
	}
	return d.argument(what, name, v, n)
}

// exactly is floats for a view that must have n elements.
func (d *dev) exactly(what string, v device.View, n int) driver.Ptr {
	if v.Present() && v.N != n {
		panic(fmt.Sprintf("cuda: %s: a view of %d elements, expected %d", what, v.N, n))
	}
	return d.floats(what, v, n)
}

// optional is floats for an argument that may be absent, then 0.
func (d *dev) optional(what string, v device.View, n int) driver.Ptr {
	if !v.Present() {
		return 0
	}
	return d.floats(what, v, n)
}

func (d *dev) ints(what string, v device.View, n int) driver.Ptr {
	return d.address(what, v, device.Int32, n)
}

func (d *dev) optionalInts(what string, v device.View, n int) driver.Ptr {
	if !v.Present() {
		return 0
	}
	return d.ints(what, v, n)
}

// address checks that a view lies in a live buffer of this device and holds at least n elements.
func (d *dev) address(what string, v device.View, t device.DType, n int) driver.Ptr {
	if v.Buf == nil {
		panic(fmt.Sprintf("cuda: %s is absent, expected a view of %d elements", what, max(n, 0)))
	}
	b, ok := v.Buf.(*buffer)
	if !ok || b.owner != d {
		panic(fmt.Sprintf("cuda: %s: memory of another device (%T)", what, v.Buf))
	}
	if b.freed {
		panic(fmt.Sprintf("cuda: %s: memory that was freed", what))
	}
	if b.dtype != t {
		panic(fmt.Sprintf("cuda: %s: %v elements, expected %v", what, b.dtype, t))
	}
	if v.Off < 0 || v.N < 0 || v.Off > b.n-v.N {
		panic(fmt.Sprintf("cuda: %s: elements [%d:%d] of a buffer of %d", what, v.Off, v.Off+v.N, b.n))
	}
	if v.N < n {
		panic(fmt.Sprintf("cuda: %s: a view of %d elements, expected at least %d", what, v.N, n))
	}
	p := at(b.ptr, v.Off)
	d.bf16.note(p, v.N)
	return p
}

// at is the address of element i.
func at(p driver.Ptr, i int) driver.Ptr { return p + driver.Ptr(4*i) }

// positive panics unless every size is at least 1.
func positive(what string, sizes ...int) {
	for _, n := range sizes {
		if n < 1 {
			panic(fmt.Sprintf("cuda: %s: size %d, expected at least 1", what, n))
		}
	}
}
