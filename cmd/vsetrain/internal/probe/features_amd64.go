package probe

import "golang.org/x/sys/cpu"

// Features lists the extensions that the kernels can use.
func Features() []Feature {
	x := &cpu.X86
	return []Feature{
		{"AVX2", x.HasAVX2}, {"FMA", x.HasFMA},
		{"AVX-512", x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL},
		{"AVX512-BF16", x.HasAVX512BF16},
		{"AMX-BF16", x.HasAMXTile && x.HasAMXBF16},
	}
}
