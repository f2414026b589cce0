//go:build !unix

package safetensors

import (
	"io"
	"os"
)

// mapFile reads a file into memory: files are not mapped on this system.
func mapFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := regularSize(f)
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	_, err = io.ReadFull(f, b)
	return b, err
}

func unmapFile([]byte) error { return nil }
