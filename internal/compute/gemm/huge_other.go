//go:build !linux

package gemm

func hugePages([]float32) {}
