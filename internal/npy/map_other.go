//go:build !unix

package npy

import (
	"errors"
	"os"
)

// mapFile reports that files are not mapped on this system: rows are read with ReadAt.
func mapFile(*os.File, int64) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapFile([]byte) error { return nil }
