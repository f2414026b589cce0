package half

import "golang.org/x/sys/cpu"

// hasVectors tells whether the processor converts halves: CPUID leaf 1, ECX bit 29, and AVX enabled by the system.
var hasVectors = cpu.X86.HasAVX && cpuid1ECX()&(1<<29) != 0

// cpuid1ECX returns register ECX of CPUID leaf 1.
func cpuid1ECX() uint32

// decodeVectors decodes n halves; n must be a multiple of 8.
//
//go:noescape
func decodeVectors(dst *float32, src *byte, n int)

// encodeVectors encodes n floats, rounding to nearest even; n must be a multiple of 8.
//
//go:noescape
func encodeVectors(dst *byte, src *float32, n int)
