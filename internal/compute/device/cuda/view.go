package cuda

import (
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
)

// transfer begins the check of a copy between host and device.
func (d *dev) transfer(what string) *device.Checker {
	d.bf16.first = d.bf16.seen
	return d.checker.Begin(what)
}

// Inspect implements device.Inspector.
func (d *dev) Inspect(buf device.Buffer) (t device.DType, n int, fault string) {
	b, ok := buf.(*buffer)
	switch {
	case !ok || b.owner != d:
		return 0, 0, "memory of another device"
	case b.freed:
		return 0, 0, "memory that was freed"
	}
	return b.dtype, b.n, ""
}

// pointer is the address of a checked view, 0 if it is absent.
func (d *dev) pointer(v device.View) driver.Ptr {
	if v.Buf == nil {
		return 0
	}
	p := at(v.Buf.(*buffer).ptr, v.Off)
	d.bf16.note(p, v.N)
	return p
}

// at is the address of element i.
func at(p driver.Ptr, i int) driver.Ptr { return p + driver.Ptr(4*i) }
