package cpu

import "vsetrain/internal/compute/device"

func (d *dev[T]) Inspect(buf device.Buffer) (t device.DType, n int, fault string) {
	b, ok := buf.(*buffer[T])
	switch {
	case !ok || b.owner != d:
		return 0, 0, "memory of another device"
	case b.freed:
		return 0, 0, "memory that was freed"
	}
	return b.dtype, b.n, ""
}

// values are the elements of a checked Float view, nil of an absent one. Their capacity is cut so that no kernel can
// reach beyond them.
func (d *dev[T]) values(v device.View) []T {
	if v.Buf == nil {
		return nil
	}
	return v.Buf.(*buffer[T]).f[v.Off : v.Off+v.N : v.Off+v.N]
}

// integers is values of a checked Int32 view.
func (d *dev[T]) integers(v device.View) []int32 {
	if v.Buf == nil {
		return nil
	}
	return v.Buf.(*buffer[T]).i[v.Off : v.Off+v.N : v.Off+v.N]
}
