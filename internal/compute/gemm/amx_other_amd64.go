//go:build !linux

package gemm

// permitAMX: only Linux grants the tile registers the way this package asks for them.
func permitAMX() bool { return false }
