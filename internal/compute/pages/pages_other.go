//go:build !linux && !darwin

package pages

// mapped returns nil: buffers come from the Go heap.
func mapped(int) ([]byte, error) { return nil, nil }

func unmap([]byte) {}
