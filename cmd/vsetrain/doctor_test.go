package main

import (
	"strings"
	"testing"
)

// A machine without fault gets no warning; each fault gets exactly its own.
func TestDoctorWarnings(t *testing.T) {
	healthy := func() diagnosis {
		return diagnosis{
			Arch: "amd64", CPUs: 8, Threads: 8, Load: 0.2, MemoryAvailable: 30e9, Dir: "runs", DiskFree: 100e9,
			Features: map[string]bool{"AVX2": true, "FMA": true, "AVX-512": true, "AVX512-BF16": true,
				"AMX-BF16": true}, GEMM: "avx512", BF16: "amx",
		}
	}
	for _, c := range []struct {
		name            string
		spoil           func(*diagnosis)
		problem, remedy string
	}{
		{"healthy", func(*diagnosis) {}, "", ""},
		{"arm", func(d *diagnosis) {
			d.Arch, d.Features, d.BF16 = "arm64", map[string]bool{"NEON": true, "BF16": true}, "neonbf16"
		}, "", ""},
		{"arm without bf16", func(d *diagnosis) {
			d.Arch, d.Features, d.BF16 = "arm64", map[string]bool{"NEON": true}, "emulated"
		}, "no bf16", "fp32"},
		{"riscv", func(d *diagnosis) { d.Arch, d.Features, d.BF16 = "riscv64", nil, "emulated" }, "", ""},
		{"no AVX2", func(d *diagnosis) { d.Features, d.BF16 = map[string]bool{"FMA": true}, "emulated" }, "no AVX2",
			"processor of 2015"},
		{"no bf16", func(d *diagnosis) { d.Features["AMX-BF16"], d.BF16 = false, "emulated" }, "no bf16", "fp32"},
		{"AMX forbidden", func(d *diagnosis) { d.BF16 = "avx512bf16" }, "does not permit", "Linux 5.16"},
		{"AMX forgone", func(d *diagnosis) { d.BF16, d.BLAS = "avx512bf16", "avx2" }, "", ""},
		{"limit met", func(d *diagnosis) { d.CPULimit = 7.5 }, "", ""},
		{"limit passed", func(d *diagnosis) { d.CPULimit = 1.5 }, "8 threads are started, but the container may use " +
			"1.5", "device.threads=1,"},
		{"busy", func(d *diagnosis) { d.Load = 5 }, "load 5.0 on 8 processors", "idle"},
		{"memory limit", func(d *diagnosis) { d.MemoryLimit = 1e9 }, "may use 1 GB", "--memory"},
		{"memory used up", func(d *diagnosis) { d.MemoryAvailable = 5e8 }, "only 500 MB", "train.batch"},
		{"disk", func(d *diagnosis) { d.DiskFree = 3e9 }, "runs has 3 GB free", "--run"},
	} {
		d := healthy()
		c.spoil(&d)
		d.check()
		if c.problem == "" {
			if len(d.Warnings) > 0 {
				t.Errorf("%s: unexpected warning %q", c.name, d.Warnings[0].Problem)
			}
			continue
		}
		if len(d.Warnings) != 1 {
			t.Errorf("%s: %d warnings, want 1: %q", c.name, len(d.Warnings), d.Warnings)
			continue
		}
		if w := d.Warnings[0]; !strings.Contains(w.Problem, c.problem) || !strings.Contains(w.Remedy, c.remedy) {
			t.Errorf("%s: got %q, %q; want %q, %q in them", c.name, w.Problem, w.Remedy, c.problem, c.remedy)
		}
	}
}
