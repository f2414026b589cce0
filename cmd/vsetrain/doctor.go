package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/probe"
	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/gemm"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/vec"
	"vsetrain/internal/run/launch"
	"vsetrain/internal/system/mpi"
)

type doctorOptions struct {
	Dir      string `flag:"dir" arg:"DIR" default:"." usage:"DIR on the disk to measure"`
	Quick    bool   `flag:"quick" usage:"measure nothing"`
	JSON     bool   `flag:"json" usage:"print JSON"`
	GPU      bool   `flag:"gpu" usage:"open the GPU and measure it"`
	Index    int    `flag:"index" min:"0" usage:"number of the GPU for --gpu, as in device.index"`
	WritePTX string `flag:"write-ptx" arg:"DIR" usage:"only write the GPU kernels, as PTX, into DIR"`
}

// diagnosis is the result of doctor.
type diagnosis struct {
	Version         string           `json:"version"`
	Go              string           `json:"go"`
	OS              string           `json:"os"`
	Arch            string           `json:"arch"`
	CPU             string           `json:"cpu"`
	CPUs            int              `json:"cpus"`
	Threads         int              `json:"threads"`             // for device.threads=0
	CPULimit        float64          `json:"cpu_limit,omitempty"` // of the control group
	Load            float64          `json:"load"`                // mean of the last minute
	Features        map[string]bool  `json:"features"`
	Memory          int64            `json:"memory_bytes"`
	MemoryAvailable int64            `json:"memory_available_bytes"`
	MemoryLimit     int64            `json:"memory_limit_bytes,omitempty"` // of the control group
	Bandwidth       float64          `json:"memory_bytes_per_s,omitempty"`
	BLAS            string           `json:"blas"` // VSETRAIN_BLAS
	GEMM            string           `json:"gemm"`
	GEMMGflops      float64          `json:"gemm_gflops,omitempty"`
	BF16            string           `json:"gemm_bf16"`
	BF16Gflops      float64          `json:"gemm_bf16_gflops,omitempty"`
	Vectors         string           `json:"vectors"` // the kernels of elementwise functions and sums
	Dir             string           `json:"dir"`
	DiskFree        int64            `json:"disk_free_bytes"`
	DiskWrite       float64          `json:"disk_write_bytes_per_s,omitempty"`
	DiskRead        float64          `json:"disk_read_bytes_per_s,omitempty"`
	GPUs            []string         `json:"gpus"`
	GPULibraries    []driver.Library `json:"gpu_libraries"`
	MPI             driver.Library   `json:"mpi"`
	GPUBinding      string           `json:"gpu_binding"` // how the program calls the driver: driver.Binding
	Warnings        []warning        `json:"warnings"`
	features        []probe.Feature
}

// warning is a problem that makes training slow or impossible, and its remedy.
type warning struct {
	Problem string `json:"problem"`
	Remedy  string `json:"remedy"`
}

// doctorShape is M = N = K of the products that are timed.
const doctorShape = 1024

func newCmdDoctor(a *app) *cobra.Command {
	return a.command(&doctorOptions{}, &cobra.Command{
		Use:   "doctor",
		Short: "Check and measure the machine: processor, memory, disk, GPU",
		Long: `Report what matters for training on this machine, measure it for about two
seconds, and say what would help. --gpu opens the GPU and measures it instead,
for half a minute.

Libraries are located but not loaded, except the one that VSETRAIN_BLAS asks for. One temporary file is written and
removed.`,
		Example: `  vsetrain doctor
  vsetrain doctor --dir /data/f30k --json
  vsetrain doctor --gpu
  VSETRAIN_BLAS=openblas vsetrain doctor
  vsetrain doctor --write-ptx ptx && ptxas -v -arch=sm_90 -o /dev/null ptx/gemm.ptx`,
	})
}

func (o *doctorOptions) run(_ context.Context, a *app) error {
	if o.WritePTX != "" {
		return writePTX(a, o.WritePTX)
	}
	if o.GPU {
		return o.runGPU(a)
	}
	e, limits := session(a.Now()), probe.ControlGroup("/")
	d := diagnosis{
		Version: e.Version, Go: e.Go, OS: e.OS, Arch: e.Arch, CPU: e.CPU, CPUs: e.CPUs, Threads: runtime.GOMAXPROCS(0),
		CPULimit: limits.CPUs, Load: probe.Load("/"), Features: map[string]bool{},
		Memory: int64(e.MemoryBytes), MemoryAvailable: probe.Available("/"), MemoryLimit: limits.Memory,
		BLAS: a.getenv("VSETRAIN_BLAS"), Dir: o.Dir,
		GPUs: probe.GPUs("/"), GPULibraries: gpuLibraries(a.getenv), GPUBinding: driver.Binding,
		MPI: mpi.Search("/", a.getenv), Warnings: []warning{}, features: probe.Features(),
	}
	for _, f := range d.features {
		d.Features[f.Name] = f.Has
	}
	pool := par.New(d.Threads)
	defer pool.Close()
	if err := d.products(pool, o.Quick); err != nil {
		return err
	}
	if !o.Quick {
		d.Bandwidth = probe.Bandwidth(pool, 128<<20, 250*time.Millisecond)
	}
	if err := d.disk(o.Quick); err != nil {
		return err
	}
	d.check()
	if !o.JSON {
		d.print(a)
		return nil
	}
	return printJSON(a, d)
}

// products selects the matrix products as training does, and times them. A library that cannot be loaded is a warning.
func (d *diagnosis) products(pool *par.Pool, quick bool) error {
	e, err := gemm.New(pool, gemm.Options{Kernel: d.BLAS})
	if err != nil {
		d.warn(fmt.Sprintf("VSETRAIN_BLAS=%s is not available: %v", d.BLAS, err), "unset VSETRAIN_BLAS, or install "+
			"the library in a folder that is searched (docs/security.md)")
		if e, err = gemm.New(pool, gemm.Options{}); err != nil {
			return err
		}
	}
	d.GEMM, d.BF16, d.Vectors = e.Name(), e.BF16Name(), vec.Best().Name
	if !quick {
		const n = doctorShape
		d.GEMMGflops = gemm.Measure(e, n, n, n, false, false, gemm.Float32, 300*time.Millisecond)
		d.BF16Gflops = gemm.Measure(e, n, n, n, false, false, gemm.BF16, 300*time.Millisecond)
	}
	return nil
}

// disk measures the folder. A folder that cannot be written is a warning, a missing one an error.
func (d *diagnosis) disk(quick bool) error {
	free, err := probe.Free(d.Dir)
	if err != nil {
		return err
	}
	d.DiskFree = free
	if quick {
		return nil
	}
	s, err := probe.MeasureDisk(d.Dir, 400*time.Millisecond)
	if err != nil {
		d.warn(fmt.Sprintf("%s cannot be written: %v", d.Dir, err), "choose a run directory (--run) on a writable disk")
		return nil
	}
	d.DiskWrite, d.DiskRead = s.Write, s.Read
	return nil
}

// line prints a finding after a heading.
func (a *app) line(name, format string, args ...any) {
	a.Printf("%s %s\n", a.Paint(ui.Bold, fmt.Sprintf("%-9s", name)), fmt.Sprintf(format, args...))
}

func (d *diagnosis) print(a *app) {
	line := a.line
	rate := func(x float64) string { return ui.Bytes(int64(x)) + "/s" }
	a.Printf("vsetrain %s %s %s/%s\n\n", d.Version, d.Go, d.OS, d.Arch)
	line("cpu", "%s, %s", d.CPU, ui.Count(d.CPUs, "processor"))
	if len(d.features) > 0 {
		line("", "%s", d.featureList())
	}
	memory := "of unknown size"
	if d.Memory > 0 {
		memory = ui.Bytes(d.Memory)
	}
	if d.MemoryAvailable > 0 {
		memory += ", " + ui.Bytes(d.MemoryAvailable) + " available"
	}
	if d.Bandwidth > 0 {
		memory += ", copies at " + rate(d.Bandwidth) + " (read and written)"
	}
	line("memory", "%s", memory)
	line("products", "fp32 %s%s", d.GEMM, d.speed(d.GEMMGflops))
	line("", "bf16 %s%s", d.BF16, d.speed(d.BF16Gflops))
	if libraries := gemm.Libraries(); d.BLAS == "" && len(libraries) > 0 {
		line("", "own kernels (VSETRAIN_BLAS=%s asks for a library)", strings.Join(libraries, " or "))
	} else if d.BLAS == "" {
		line("", "own kernels")
	}
	line("vectors", "%s", d.Vectors)
	disk := d.Dir
	if d.DiskFree > 0 {
		disk += ": " + ui.Bytes(d.DiskFree) + " free"
	}
	if d.DiskWrite > 0 {
		disk += ", writes " + rate(d.DiskWrite)
	}
	if d.DiskRead > 0 {
		disk += ", reads " + rate(d.DiskRead)
	}
	line("disk", "%s", disk)
	line("gpu", "%s; device.kind auto takes the GPU if the driver lists one, otherwise the CPU (docs/cuda.md)",
		cmp.Or(strings.Join(d.GPUs, ", "), "no driver lists one"))
	d.printLibraries(line)
	if path, err := launch.Pick(d.MPI, launch.Place{}); err != nil {
		line("mpi", "%v", err)
	} else {
		line("mpi", "%s; train --procs N starts it", path)
	}
	a.Printf("\n")
	if len(d.Warnings) == 0 {
		a.Printf("%s\n", a.Paint(ui.Green, "nothing to mend"))
	}
	for _, w := range d.Warnings {
		a.Printf("%s %s\n         %s\n", a.Paint(ui.Yellow, "warning:"), w.Problem, w.Remedy)
	}
}

// printLibraries prints which CUDA libraries were found, or why none can be used.
func (d *diagnosis) printLibraries(line func(name, format string, args ...any)) {
	if driver.ErrNone != nil {
		line("", "%v", driver.ErrNone)
		return
	}
	line("", "vsetrain doctor --gpu opens it and measures it")
	if d.GPUBinding != "dlopen" {
		line("", "driver calls: %s", d.GPUBinding)
	}
	for _, l := range d.GPULibraries {
		if l.Path == "" {
			line("", "%s", l.Missing())
		} else {
			line("", "%s %s (%s)", l.Name, l.Path, l.From)
		}
	}
}

func gpuLibraries(getenv func(string) string) []driver.Library {
	cuda, blas := driver.Search("/", getenv)
	return []driver.Library{cuda, blas, driver.SearchNCCL("/", getenv)}
}

func (d *diagnosis) speed(gflops float64) string {
	if gflops == 0 {
		return ""
	}
	return fmt.Sprintf(", %.0f GFLOP/s on %s (%[3]d x %[3]d x %[3]d)", gflops, ui.Count(d.Threads, "thread"),
		doctorShape)
}

func (d *diagnosis) featureList() string {
	var has, misses []string
	for _, f := range d.features {
		if f.Has {
			has = append(has, f.Name)
		} else {
			misses = append(misses, f.Name)
		}
	}
	s := "has " + strings.Join(has, ", ")
	if len(misses) > 0 {
		s += "; not " + strings.Join(misses, ", ")
	}
	return s
}

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
