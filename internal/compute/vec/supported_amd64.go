package vec

import "golang.org/x/sys/cpu"

// Supported returns the float32 tables this processor can run, fastest first.
func Supported() []*Ops[float32] {
	var all []*Ops[float32]
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		all = append(all, avx512())
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		all = append(all, avx2())
	}
	return append(all, go32())
}
