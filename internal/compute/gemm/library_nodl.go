//go:build !((linux || darwin) && (amd64 || arm64)) || nodl

package gemm

import (
	"fmt"

	"vsetrain/internal/system/libraries"
)

// Libraries returns nil: this program loads no libraries.
func Libraries() []string { return nil }

func openLibrary(kind string, _ int) (library, error) {
	return nil, fmt.Errorf("gemm: %s: %w: %s; choose another kernel", kind, ErrNoLibrary, libraries.Unsupported())
}
