package half

import "golang.org/x/sys/cpu"

// hasF16C tells whether the processor converts halves: CPUID leaf 1, ECX bit 29, and AVX enabled by the system.
var hasF16C = cpu.X86.HasAVX && cpuid1ECX()&(1<<29) != 0

// cpuid1ECX returns register ECX of CPUID leaf 1.
func cpuid1ECX() uint32

// decodeF16C decodes n halves; n must be a multiple of 8.
//
//go:noescape
func decodeF16C(dst *float32, src *byte, n int)

// encodeF16C encodes n floats, rounding to nearest even; n must be a multiple of 8.
//
//go:noescape
func encodeF16C(dst *byte, src *float32, n int)
