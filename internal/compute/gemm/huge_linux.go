package gemm

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePages asks for 2 MiB pages under a large workspace: packed panels are walked in strides that cost many
// entries of the address translation caches. It is advice; refusal changes nothing but speed.
func hugePages(b []float32) {
	const page = 2 << 20
	start := int(-uintptr(unsafe.Pointer(&b[0]))%page) / 4
	if n := (len(b) - start) * 4 / page * page; n > 0 {
		_ = unix.Madvise(unsafe.Slice((*byte)(unsafe.Pointer(&b[start])), n), unix.MADV_HUGEPAGE)
	}
}
