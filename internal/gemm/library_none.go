//go:build !((linux || darwin) && (amd64 || arm64))

package gemm

import "fmt"

func openLibrary(kind string, _ int) (library, error) {
	return nil, fmt.Errorf("gemm: %s: %w: this platform cannot load one; choose another kernel", kind, ErrNoLibrary)
}
