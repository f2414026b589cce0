package main

import (
	"fmt"
	"math"

	"vsetrain/cmd/vsetrain/internal/ui"
)

// doctor warns below these sizes in bytes.
const (
	lowMemory = 2 << 30 // VSE++ with a batch of 128 needs about that
	lowDisk   = 5 << 30 // two checkpoints with optimiser state, metrics, a small data set
)

func (d *diagnosis) warn(problem, remedy string) {
	d.Warnings = append(d.Warnings, warning{problem, remedy})
}

// check adds the warnings that follow from the findings.
func (d *diagnosis) check() {
	has := d.Features
	switch {
	case d.Arch == "amd64" && !(has["AVX2"] && has["FMA"]):
		d.warn("the processor has no AVX2 and FMA, or the virtual machine hides them: products run in plain Go, some "+
			"ten times slower",
			"use a processor of 2015 or later, or let the virtual machine pass its features (for example -cpu host)")
	case (d.Arch == "amd64" || d.Arch == "arm64" && !has["BF16"]) && d.BF16 == "emulated":
		d.warn("the processor has no bf16 instructions: device.precision=bf16 rounds in software and is slower than "+
			"fp32", "train with device.precision=fp32, the default")
	case has["AMX-BF16"] && d.BF16 != "amx" && d.BLAS == "":
		d.warn("the processor has AMX but the system does not permit its use", "use Linux 5.16 or later; until then "+
			"bf16 runs on "+d.BF16)
	}
	for _, l := range d.GPULibraries {
		for _, refused := range l.Refused {
			d.warn(l.Name+" is not loaded from where others can change it: "+refused,
				"docs/security.md has the rule")
		}
	}
	if d.CPULimit > 0 && float64(d.Threads) > math.Ceil(d.CPULimit) {
		d.warn(fmt.Sprintf("%s are started, but the container may use %.3g processors: threads are stopped in the "+
			"middle of their work", ui.Count(d.Threads, "thread"), d.CPULimit),
			fmt.Sprintf("set device.threads=%d, or raise the limit (docker --cpus)", max(1, int(d.CPULimit))))
	}
	if d.Load > float64(d.CPUs)/2 {
		d.warn(fmt.Sprintf("other programs keep the processors busy: load %.1f on %s", d.Load,
			ui.Count(d.CPUs, "processor")),
			"measure again when the machine is idle; training shares the time too")
	}
	if d.MemoryLimit > 0 && d.MemoryLimit < lowMemory {
		d.warn("the container may use "+ui.Bytes(d.MemoryLimit)+" of memory", "raise the limit to 4 GB (docker "+
			"--memory), or train with a smaller train.batch")
	}
	if d.MemoryAvailable > 0 && d.MemoryAvailable < lowMemory {
		d.warn("only "+ui.Bytes(d.MemoryAvailable)+" of memory are available", "close other programs, or train with "+
			"a smaller train.batch")
	}
	if d.DiskFree > 0 && d.DiskFree < lowDisk {
		d.warn(fmt.Sprintf("%s has %s free", d.Dir, ui.Bytes(d.DiskFree)), "free some, or choose a run directory "+
			"(--run) on another disk; features of Flickr30K take 33 GB")
	}
}
