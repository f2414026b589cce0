package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/launch"
	"vsetrain/internal/system/build"
	"vsetrain/internal/system/mpi"
	"vsetrain/internal/system/options"
)

// rankFlags are the flags of a command that divides its work among processes.
type rankFlags struct {
	Procs int           `flag:"procs" default:"1" min:"1" max:"1024" not:"gpus" usage:"divide the work among N processes of this machine, which share its processors (MPI)"`
	GPUs  string        `flag:"gpus" arg:"LIST" usage:"divide the work among GPUs: how many, or a LIST such as 0,2,5 (NCCL)"`
	Wait  time.Duration `flag:"wait" min:"0" usage:"how long ranks wait for each other at the start, such as 10m; 0 waits forever"`

	numbers []int       // of the GPUs of this machine; nil without --gpus
	nccl    driver.NCCL // of ranks with GPUs
}

// place finds the rank of this process from the variables of a launcher, and --procs or --gpus.
func (o *rankFlags) place(a *app) (launch.Place, error) {
	procs := o.Procs
	if o.GPUs != "" {
		if err := o.checkGPUs(a); err != nil {
			return launch.Place{}, err
		}
		procs = len(o.numbers)
	}
	p, err := launch.Environment(a.getenv)
	if err != nil || p.Child || procs == 1 {
		return p, err
	}
	if p.Locals > 1 {
		return p, usagef("%s started %d processes on this machine: leave --procs and --gpus out", p.Launcher, p.Locals)
	}
	return p.Times(procs), nil
}

// checkGPUs reads --gpus, and compares it with the GPUs of this machine.
func (o *rankFlags) checkGPUs(a *app) error {
	for i, item := range strings.Split(o.GPUs, ",") {
		n, err := options.ParseInt(strings.TrimSpace(item))
		if zero := options.LeadingZero(item); zero != "" {
			return usagef("--gpus: item %d: %s", i+1, zero)
		}
		if err != nil || n < 0 || n > 1023 || slices.Contains(o.numbers, n) {
			return usagef("--gpus: item %d: expected the number of a GPU, each once, found %q; --gpus 8 takes eight "+
				"GPUs, --gpus 0,2,5 takes three", i+1, item)
		}
		o.numbers = append(o.numbers, n)
	}
	if !strings.Contains(o.GPUs, ",") {
		n := o.numbers[0]
		if n == 0 {
			return usagef("--gpus: expected at least 1 GPU, found 0; for only GPU 0, set device.index=0")
		}
		for o.numbers = nil; len(o.numbers) < n; {
			o.numbers = append(o.numbers, len(o.numbers))
		}
	}
	n, err := countGPUs(a)
	if err != nil {
		return fmt.Errorf("--gpus %s: %w; %s", o.GPUs, err, onProcs)
	}
	if most := slices.Max(o.numbers); most >= n {
		return fmt.Errorf("--gpus %s: %s found here, counted from 0; name fewer, or %s", o.GPUs, ui.Count(n, "GPU"),
			onProcs)
	}
	return nil
}

const onProcs = "use the processors with --procs N"

// countGPUs returns the number of GPUs that the driver lists.
func countGPUs(a *app) (int, error) {
	lib, _ := driver.Search("/", a.getenv)
	if lib.Path == "" {
		return 0, fmt.Errorf("no GPU can be used: %s", lib.Missing())
	}
	return driver.Within(driver.Timeout, "its start", func() (int, error) {
		d, err := driver.Open(lib.Path)
		if err != nil {
			return 0, fmt.Errorf("no GPU can be used: %w", err)
		}
		return d.Devices()
	})
}

// placeDevice gives this process its device, and its share of the processors of a machine with several ranks. Ranks
// have GPUs with --gpus, if device.kind is cuda, and if a launcher started them and device.kind auto finds a GPU.
func (o *rankFlags) placeDevice(a *app, p launch.Place, d *device.Options) error {
	launched := p.Launcher != "" && !p.Child && o.Procs == 1
	if d.Kind == "cuda" && o.numbers == nil && !launched && p.Ranks > 1 {
		return usagef("the device is cuda, but --procs is for processors; choose the GPUs with --gpus, or set " +
			"device.kind (--device) to cpu")
	}
	n, err := 1, error(nil)
	if o.numbers == nil && (d.Kind == "cuda" || launched && d.Kind == "auto") {
		n, err = countGPUs(a)
	}
	switch {
	case o.numbers != nil:
		d.Kind, d.Index = "cuda", o.numbers[p.Local%len(o.numbers)]
	case d.Kind == "cuda" && err != nil:
		return fmt.Errorf("device.kind cuda: %w", err)
	case launched && d.Kind != "cpu" && err == nil && n > 0:
		d.Kind, d.Index = "cuda", min(p.Device, n-1)
		if n > 1 && p.Device >= n {
			return fmt.Errorf("%s started at least %d processes on this machine, which has %s; start fewer", p.Launcher,
				p.Device+1, ui.Count(n, "GPU"))
		}
	default:
		d.Kind = "cpu"
	}
	if p.Locals > 1 {
		all := runtime.GOMAXPROCS(0)
		if n := d.Threads; n > 0 {
			all = min(n, all)
		}
		runtime.GOMAXPROCS(p.Threads(all))
		d.Threads = 0 // all that the process may use
	}
	if d.Kind == "cpu" || p.Ranks == 1 {
		return nil
	}
	lib := driver.SearchNCCL("/", a.getenv)
	if lib.Path == "" {
		return fmt.Errorf("several GPUs need NCCL: %s; or %s", lib.Missing(), onProcs)
	}
	var failed error
	for _, path := range lib.Paths() {
		if o.nccl, err = driver.OpenNCCL(path, !d.Deterministic); err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// jobOf returns the world of the ranks' devices.
func jobOf(m *launch.Member) device.Job {
	if m.Devices() {
		return m
	}
	return m.World
}

// programFacts returns what all ranks of any command must agree on.
func (o *rankFlags) programFacts(a *app, d *device.Options) ([]launch.Fact, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := integrity.MarkOf(executable)
	if err != nil {
		return nil, err
	}
	list := []launch.Fact{{Key: "program", Value: build.Current().String() + " " + program.String()},
		{Key: "the device", Value: d.Kind}}
	if o.nccl != nil {
		return append(list, launch.Fact{Key: "NCCL", Value: driver.VersionOfNCCL(o.nccl.Version())}), nil
	}
	return append(list, launch.Fact{Key: "the set of kernels", Value: strings.TrimSpace(vec.Best().Name + " " +
		a.getenv("VSETRAIN_BLAS"))}), nil
}

// join makes this process a rank of a job: all ranks start, or none. Rank 0 prints; other ranks print only what rank 0
// cannot know. exit ends the process if another rank ended and this one would wait for it.
func (o *rankFlags) join(ctx context.Context, a *app, p launch.Place, list []launch.Fact,
	exit func(*launch.Failure)) (*launch.Member, error) {
	program, err := programPath()
	if err != nil {
		return nil, err
	}
	if p.Rank > 0 {
		a.Out = io.Discard
	}
	m, err := launch.Join(ctx, launch.Options{Place: p, Procs: max(o.Procs, len(o.numbers)), Devices: o.nccl != nil,
		Command: append([]string{program}, os.Args[1:]...), Env: a.Environ, MPI: mpi.Search("/", a.getenv),
		Facts: list, Wait: o.Wait, Notice: func(text string) { a.Warnf("%s", text) }, Exit: exit})
	var other *launch.Failure
	if p.Child && (err == nil || errors.As(err, &other)) { // rank 0 reports it
		a.Err = io.Discard
	}
	return m, err
}

// divide calls f in each of the processes that divide the work of a command. A process alone has the world nil.
func (o *rankFlags) divide(ctx context.Context, a *app, d *device.Options,
	f func(context.Context, device.Job) error) error {
	p, err := o.place(a)
	if err != nil {
		return err
	}
	if p.Ranks > 1 || o.GPUs != "" {
		if err := o.placeDevice(a, p, d); err != nil {
			return err
		}
	}
	if p.Ranks < 2 {
		return f(ctx, nil)
	}
	list, err := o.programFacts(a, d)
	if err != nil {
		return err
	}
	list = append(list, launch.Fact{Key: "the command", Value: strings.Join(os.Args[1:], " ")})
	m, err := o.join(ctx, a, p, list, func(f *launch.Failure) {
		a.Errorf("%v", f)
		os.Exit(exitFailure)
	})
	if err != nil {
		return err
	}
	ctx, stop := m.Context(ctx)
	defer stop()
	if err = f(ctx, jobOf(m)); err != nil && !errors.Is(err, context.Canceled) {
		return m.Fail(err)
	}
	return errors.Join(err, m.Leave())
}
