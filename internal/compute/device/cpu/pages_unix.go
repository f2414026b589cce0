//go:build linux || darwin

package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapPages maps zeroed pages outside the Go heap, which the garbage collector need not count.
func mapPages(bytes int) ([]byte, error) {
	p, err := unix.Mmap(-1, 0, bytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("mmap: %w", err)
	}
	preferHugePages(p)
	return p, nil
}

func unmapPages(p []byte) { _ = unix.Munmap(p) }
