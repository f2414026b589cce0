//go:build (amd64 || arm64) && !nodl

package driver

import (
	"fmt"

	"github.com/ebitengine/purego"
)

// Workspace gives the handle memory of the caller's (cublasSetWorkspace), which must outlive it. Without, versions
// before 12.2 keep memory of their own for every graph that products are recorded in, and later ones put allocations
// into the graphs.
func (b *cublas) Workspace(p Ptr, bytes int) error {
	lib, err := purego.Dlopen(b.path, purego.RTLD_NOW|purego.RTLD_LOCAL) // the library that is loaded
	if err != nil {
		return fmt.Errorf("load cuBLAS: %w", err)
	}
	set := entry{name: "cublasSetWorkspace_v2"}
	if set.addr, err = purego.Dlsym(lib, set.name); err != nil {
		return fmt.Errorf("%s is no cuBLAS of version 11 or later: %w", b.path, err)
	}
	b.lt.space, b.lt.bytes = p, bytes
	return b.call(&set, b.handle, uintptr(p), uintptr(bytes))
}
