package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapPages asks the system for zeroed pages outside the Go heap. Buffers of hundreds of megabytes are read in streams,
// where huge pages save most of the address translation; where they are not available the advice has no effect.
func mapPages(bytes int) ([]byte, error) {
	p, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	_ = unix.Madvise(p, unix.MADV_HUGEPAGE)
	return p, nil
}

func unmapPages(p []byte) { _ = unix.Munmap(p) }
