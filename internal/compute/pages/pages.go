// Package pages allocates large memory outside the Go heap, in huge pages if the operating system has them.
package pages

import "unsafe"

const (
	// Alignment is the alignment of all memory, in bytes.
	Alignment = 64
	mapFrom   = 4 << 20 // bytes; smaller memory comes from the Go heap
)

// New returns n zeroed elements, which must not hold pointers, and the pages to Free.
func New[T any](n int) (x []T, pages []byte, err error) {
	bytes := n * int(unsafe.Sizeof(*new(T)))
	if bytes == 0 {
		return nil, nil, nil
	}
	if bytes >= mapFrom {
		if pages, err = mapped(bytes); err != nil {
			return nil, nil, err
		}
		if pages != nil {
			return unsafe.Slice((*T)(unsafe.Pointer(&pages[0])), n), pages, nil
		}
	}
	raw := make([]byte, bytes+Alignment)
	shift := -int(uintptr(unsafe.Pointer(&raw[0]))) & (Alignment - 1)
	return unsafe.Slice((*T)(unsafe.Pointer(&raw[shift])), n), nil, nil
}

// Free returns memory to the system. pages is nil for memory of the Go heap.
func Free(pages []byte) {
	if pages != nil {
		unmap(pages)
	}
}
