//go:build !amd64 && !arm64

package gemm

// packing is the argument block of assembly routines, which this architecture has none of.
type packing struct{}

func available() []*kernel     { return []*kernel{kernelGeneric} }
func availableBF16() []*kernel { return nil }
func splitting() *kernel       { return nil }
func fixing() *kernel          { return nil }
func bestInt16() *kernel       { return nil }
