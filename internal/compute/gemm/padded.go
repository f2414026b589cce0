//go:build amd64 || arm64

package gemm

import "unsafe"

// at returns the address of element (k, o) of the operand.
func (o *operand) at(outer, k int) unsafe.Pointer {
	if o.kMajor {
		return unsafe.Pointer(&o.data[k*o.ld+outer])
	}
	return unsafe.Pointer(&o.data[outer*o.ld+k])
}

// runPadded computes a tile by a kernel that stores all nr columns; one that is not full width goes through a
// full-width copy, so that the arithmetic is the same everywhere.
func runPadded(w *worker, nr int, full func(t *tile)) {
	t := &w.t
	if t.n == nr {
		full(t)
		return
	}
	c, ldc, bias := t.c, t.ldc, t.bias
	tmp, pad := w.tmp[:t.m*nr], w.tmp[t.m*nr:(t.m+1)*nr]
	rows := func(i int) []float32 { return unsafe.Slice((*float32)(unsafe.Add(c, 4*i*ldc)), t.n) }
	if t.beta != 0 {
		for i := range t.m {
			copy(tmp[nr*i:], rows(i))
		}
	}
	if bias != nil {
		copy(pad, unsafe.Slice((*float32)(bias), t.n))
		t.bias = unsafe.Pointer(&pad[0])
	}
	t.c, t.ldc = unsafe.Pointer(&tmp[0]), nr
	full(t)
	for i := range t.m {
		copy(rows(i), tmp[nr*i:])
	}
	t.c, t.ldc, t.bias = c, ldc, bias
}
