//go:build linux || darwin

package pages

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapped maps zeroed pages outside the Go heap, which the garbage collector need not count.
func mapped(bytes int) ([]byte, error) {
	p, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	preferHugePages(p)
	return p, nil
}

func unmap(p []byte) { _ = unix.Munmap(p) }
