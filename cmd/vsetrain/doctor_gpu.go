package main

import (
	"cmp"
	"fmt"
	"os"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/device/cuda/kernels"
	"vsetrain/internal/compute/device/cuda/measure"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

// gpuCheck is the result of doctor --gpu.
type gpuCheck struct {
	Libraries []driver.Library `json:"libraries"`
	GPU       *measure.Report  `json:"gpu"`
	Error     string           `json:"error,omitempty"`
}

// runGPU opens a GPU and measures it. Without a GPU, the error names the library that was looked for.
func (o *doctorOptions) runGPU(a *app) error {
	if driver.ErrNone != nil {
		return fmt.Errorf("doctor: %w", driver.ErrNone)
	}
	lib, blas := driver.Search("/", a.getenv)
	nvml := driver.SearchNVML("/", a.getenv)
	check := gpuCheck{Libraries: []driver.Library{lib, blas, nvml}}
	err := fmt.Errorf("no GPU to check: %s", lib.Missing())
	for _, path := range lib.Paths() {
		// driver.Open sets the driver's folder of compiled kernels in the environment of the process.
		check.GPU, err = measure.GPU(measure.Request{Driver: path, BLAS: blas.Paths(), NVML: nvml.Paths(),
			Index: o.Index, Getenv: os.Getenv, Now: a.Now})
		if err == nil || !driver.NoDriver(err) {
			break
		}
	}
	if o.JSON {
		if err != nil {
			check.Error = err.Error()
		}
		if e := printJSON(a, check); e != nil {
			return e
		}
	}
	if err != nil {
		return fmt.Errorf("doctor: %w", err)
	}
	if !o.JSON {
		printGPU(a, check.GPU, blas)
	}
	for _, p := range check.GPU.Products {
		if p.Failed != "" {
			return fmt.Errorf("doctor: the %s product of %s is wrong: %s", p.Precision, p.By, p.Failed)
		}
	}
	return nil
}

func printGPU(a *app, r *measure.Report, blas driver.Library) {
	line := a.line
	line("gpu", "%s, device.index %d, compute capability %s, %d multiprocessors", r.Name, r.Index, r.Capability,
		r.Multiprocessors)
	kind := map[bool]string{true: "a part of a divided one (MIG)", false: "whole"}[r.MIG]
	line("", "%s, mode %s, PCI bus %s, UUID %s", kind, r.Mode, r.Bus, r.UUID)
	line("memory", "%s of %s free", ui.Bytes(r.MemoryFree), ui.Bytes(r.MemoryTotal))
	for _, p := range r.Others {
		used := "an unknown amount"
		if p.Memory >= 0 {
			used = ui.Bytes(p.Memory)
		}
		line("", "process %d uses %s", p.Process, used)
	}
	version := ""
	if r.DriverVersion != "" {
		version = "version " + r.DriverVersion + ", "
	}
	line("driver", "%sfor CUDA %s, %s", version, r.CUDA, r.Driver)
	switch {
	case r.BLAS != "":
		line("cublas", "%s, %s", r.BLASVersion, r.BLAS)
	case blas.Path != "": // the warnings say why
		line("cublas", "none that starts, so products are vsetrain's own")
	default:
		line("cublas", "not found, so products are vsetrain's own; %s", blas.Missing())
	}
	if r.NoMonitor != "" {
		line("nvml", "%s; memory and use of the GPU are not shown while training", r.NoMonitor)
	} else {
		line("nvml", "%s", r.Monitor)
	}
	line("start", "%.2f s: context, first kernels, libraries", r.OpenSeconds)
	c := r.Compile
	kept := "compiled now, or in part"
	if c.Kept {
		kept = "all of them kept by the driver from before"
	}
	line("kernels", "%d in %d files in %.2f s, the slowest file %s with %.2f s; %s", c.Kernels, c.Files, c.Seconds,
		c.Slowest, c.Longest, kept)
	line("", "kept in %s; a training loads only files it uses, when it uses them",
		cmp.Or(c.Cache, "nowhere: every command compiles them again"))
	for i, x := range r.Rates {
		name := ""
		if i == 0 {
			name = "copies"
		}
		line(name, "%-26s %8.2f GB/s   (%s at a time)", x.What, x.Rate/1e9, ui.Bytes(x.Bytes))
	}
	for i, p := range r.Products {
		name := ""
		if i == 0 {
			name = "products"
		}
		verdict := ""
		if p.Failed != "" {
			verdict = "   " + a.Paint(ui.Red, "WRONG")
		}
		line(name, "%-4s %-8s %8.2f TFLOP/s   error %.1e   (%[5]d x %[5]d x %[5]d)%[6]s", p.Precision, p.By,
			p.Rate/1e12, p.Error, p.Size, verdict)
	}
	for _, w := range r.Warnings {
		a.Printf("%s %s\n", a.Paint(ui.Yellow, "warning:"), w)
	}
	if r.Emulated {
		a.Printf("\nThis GPU is emulated on the processor: the times and rates above mean nothing.\n")
	}
}

// writePTX writes the kernels that are built into the program, one file for each family, for tools that read PTX (ptxas
// -v).
func writePTX(a *app, dir string) error {
	modules, err := kernels.Modules()
	if err != nil {
		return err
	}
	f, err := integrity.NewFolder(dir)
	if err != nil {
		return err
	}
	defer f.Abort()
	n := 0
	for _, m := range modules {
		if err := f.Write(m.Name+".ptx", atomicfile.Bytes(m.PTX)); err != nil {
			return err
		}
		n += len(m.Entries)
	}
	if err := f.Commit(); err != nil {
		return err
	}
	a.Printf("%s: %d files of PTX with %d kernels\n", dir, len(modules), n)
	return nil
}
