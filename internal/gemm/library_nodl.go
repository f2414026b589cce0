//go:build !((linux || darwin) && (amd64 || arm64)) || nodl

package gemm

import "fmt"

func openLibrary(kind string, _ int) (library, error) {
	return nil, fmt.Errorf("gemm: %s: %w: this program loads no libraries (docs/faq.md); choose another kernel", kind,
		ErrNoLibrary)
}
