//go:build !linux && !darwin

package cpu

// mapPages returns nil: buffers come from the Go heap.
func mapPages(int) ([]byte, error) { return nil, nil }

func unmapPages([]byte) {}
