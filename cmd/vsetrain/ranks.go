package main

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/ranks"
	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/launch"
	"vsetrain/internal/system/build"
	"vsetrain/internal/system/mpi"
)

// rankFlags are the flags of a command whose work several processes divide.
type rankFlags struct {
	Procs int
	GPUs  string
	Wait  time.Duration
}

func (o *rankFlags) define(f *pflag.FlagSet) {
	f.IntVar(&o.Procs, "procs", 1, "divide the work over `N` processes of this machine, which share its processors "+
		"(MPI)")
	f.DurationVar(&o.Wait, "wait", 0, "how long ranks wait for each other at the start, such as 10m; 0 is for ever")
}

// place finds which rank this process is: by the variables of a launcher, and --procs.
func (o *rankFlags) place(a *app) (launch.Place, error) {
	if o.Procs < 1 || o.Procs > 1024 {
		return launch.Place{}, usagef("--procs: expected a whole number in [1, 1024], found %d", o.Procs)
	}
	if o.Wait < 0 {
		return launch.Place{}, usagef("--wait: expected a duration of at least 0, found %v", o.Wait)
	}
	if o.GPUs != "" {
		return launch.Place{}, o.checkGPUs(a)
	}
	p, err := launch.Environment(a.getenv)
	if err == nil && !p.Child && o.Procs > 1 {
		p = p.Times(o.Procs)
	}
	return p, err
}

// onProcessors gives this process its part of the processors of a machine with several ranks.
func onProcessors(p launch.Place, d *device.Options) error {
	if d.Kind == "cuda" {
		return usagef("the device is cuda, but several ranks compute on processors; choose cpu (device.kind, " +
			"--device), or leave --procs out")
	}
	d.Kind = "cpu"
	if p.Locals > 1 {
		all := runtime.GOMAXPROCS(0)
		if n := d.Threads; n > 0 {
			all = min(n, all)
		}
		runtime.GOMAXPROCS(p.Threads(all))
		d.Threads = 0 // all that the process may use
	}
	return nil
}

// programFacts are what all ranks of any command must agree on.
func programFacts(a *app) ([]launch.Fact, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := integrity.MarkOf(executable)
	if err != nil {
		return nil, err
	}
	return []launch.Fact{{Key: "program", Value: build.Current().String() + " " + program.String()},
		{Key: "the set of kernels", Value: strings.TrimSpace(vec.Best().Name + " " + a.getenv("VSETRAIN_BLAS"))}}, nil
}

// join makes this process a rank of a job: all of them start, or none. Rank 0 prints; others say only what rank 0
// cannot know. exit ends the process where another rank's end leaves it waiting.
func (o *rankFlags) join(ctx context.Context, a *app, p launch.Place, list []launch.Fact,
	exit func(*launch.Failure)) (*launch.Member, error) {
	program, err := programPath()
	if err != nil {
		return nil, err
	}
	if p.Rank > 0 {
		a.Out = io.Discard
	}
	m, err := launch.Join(ctx, launch.Options{Place: p, Procs: o.Procs, Command: append([]string{program},
		os.Args[1:]...), Env: a.Environ, MPI: mpi.Search("/", a.getenv), Facts: list, Wait: o.Wait,
		Notice: func(text string) { a.Warnf("%s", text) }, Exit: exit})
	if p.Child { // rank 0 tells
		var other *launch.Failure
		if err == nil || errors.As(err, &other) {
			a.Err = io.Discard
		}
	}
	return m, err
}

// divide calls f in each of the processes that divide the work of a command on a device, or in this one alone, with a
// world of nil.
func (o *rankFlags) divide(ctx context.Context, a *app, d *device.Options,
	f func(context.Context, ranks.World) error) error {
	p, err := o.place(a)
	if err != nil {
		return err
	}
	if p.Ranks < 2 {
		return f(ctx, nil)
	}
	if err := onProcessors(p, d); err != nil {
		return err
	}
	list, err := programFacts(a)
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
	if err = f(ctx, ranks.OverMPI(m.World)); err != nil && !errors.Is(err, context.Canceled) {
		return m.Fail(err)
	}
	return errors.Join(err, m.Leave())
}
