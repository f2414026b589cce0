package main

import "testing"

// The processor has the name that Linux gives it, or, on arm64, the name of its core.
func TestModelOfProcessor(t *testing.T) {
	for _, c := range []struct{ cpuinfo, want string }{
		{"processor\t: 0\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: other\n", "AMD EPYC"},
		{"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n\nprocessor\t: 1\nCPU part\t: 0xd0c\n",
			"Neoverse V1"},
		{"CPU implementer\t: 0x48\nCPU part\t: 0xd01\n", "arch core 0xd01 of implementer 0x48"},
		{"hart\t: 0\n", "arch"},
		{"", "arch"},
	} {
		if got := modelIn(c.cpuinfo, "arch"); got != c.want {
			t.Errorf("%q: %q, want %q", c.cpuinfo, got, c.want)
		}
	}
}
