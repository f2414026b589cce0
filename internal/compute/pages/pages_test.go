package pages

import (
	"testing"
	"unsafe"

	"vsetrain/lab/try"
)

// Memory of either kind is zero, aligned and of the length that was asked for, and can be written to its end.
func TestNew(t *testing.T) {
	for _, n := range []int{0, 1, 1000, mapFrom / 8, mapFrom/8 + 3} {
		x, free, err := New[float64](n)
		if try.Do(t, err); len(x) != n || free != nil && 8*n < mapFrom {
			t.Fatalf("%d elements, %d bytes of pages, want %d elements", len(x), len(free), n)
		}
		if n > 0 && (uintptr(unsafe.Pointer(&x[0]))%Alignment != 0 || x[0] != 0 || x[n-1] != 0) {
			t.Errorf("%d elements at %p, from %v to %v", n, &x[0], x[0], x[n-1])
		}
		for i := range x {
			x[i] = 1
		}
		Free(free)
	}
}
