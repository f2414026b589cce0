package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/compute/vec"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/launch"
	"vsetrain/internal/system/build"
	"vsetrain/internal/system/mpi"
	"vsetrain/train"
)

// rankFlags are the flags of a training on several processes.
type rankFlags struct {
	Procs int
	GPUs  string
	Wait  time.Duration
}

func (o *rankFlags) define(f *pflag.FlagSet) {
	f.IntVar(&o.Procs, "procs", 1, "train on `N` processes of this machine, which share its processors (MPI)")
	f.StringVar(&o.GPUs, "gpus", "", "train on these GPUs: how many, or a `LIST` such as 0,2,5")
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

// checkGPUs compares --gpus with the GPUs that there are.
func (o *rankFlags) checkGPUs(a *app) error {
	var wanted []int
	for i, item := range strings.Split(o.GPUs, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(item))
		if err != nil || n < 0 || slices.Contains(wanted, n) {
			return usagef("--gpus: item %d: expected the number of a GPU, each once, found %q; --gpus 8 takes eight "+
				"GPUs, --gpus 0,2,5 takes three", i+1, item)
		}
		wanted = append(wanted, n)
	}
	if !strings.Contains(o.GPUs, ",") {
		if wanted[0] == 0 {
			return usagef("--gpus: expected at least 1 GPU, found 0; to train on GPU 0 alone set device.index=0")
		}
		wanted[0]-- // the last of so many
	}
	const instead = "train on the processors with --procs N"
	lib, _ := driver.Search("/", a.getenv)
	if lib.Path == "" {
		return fmt.Errorf("--gpus %s: no GPU can be used: %s; or %s", o.GPUs, lib.Missing(), instead)
	}
	d, err := driver.Open(lib.Path)
	if err != nil {
		return fmt.Errorf("--gpus %s: no GPU can be used: %w; %s", o.GPUs, err, instead)
	}
	n, err := d.Devices()
	if err != nil {
		return fmt.Errorf("--gpus %s: %w; %s", o.GPUs, err, instead)
	}
	if most := slices.Max(wanted); most >= n {
		return fmt.Errorf("--gpus %s: %s found here, counted from 0; name fewer, or %s", o.GPUs, ui.Count(n, "GPU"),
			instead)
	}
	return fmt.Errorf("--gpus %s: %s found, but training on several GPUs needs NCCL, which this version does not "+
		"call; train on one GPU (device.index), or %s", o.GPUs, ui.Count(n, "GPU"), instead)
}

// settings returns the configuration of a rank, and gives this process its part of the processors. What is stored with
// the run does not depend on the number of ranks.
func (s *trainSession) settings(c *config.Config, p launch.Place) (*config.Config, error) {
	switch {
	case p.Ranks > c.Train.Batch:
		return nil, usagef("%d ranks, but train.batch is %d: each rank needs at least one caption; start fewer",
			p.Ranks, c.Train.Batch)
	case c.Device.Kind == "cuda":
		return nil, usagef("device.kind is cuda, but several ranks compute on processors; set device.kind=cpu, or " +
			"leave --procs out")
	}
	own := *c
	own.Device.Kind = "cpu"
	if p.Locals > 1 {
		all := runtime.GOMAXPROCS(0)
		if n := own.Device.Threads; n > 0 {
			all = min(n, all)
		}
		runtime.GOMAXPROCS(p.Threads(all))
		own.Device.Threads = 0 // all that the process may use
	}
	return &own, nil
}

// notAgreed are settings that may differ from rank to rank: where something is, and what changes no result.
var notAgreed = []string{"data.dir", "run.dir", "device.threads", "device.index", "track.mlflow"}

// facts are what all ranks must agree on.
func facts(a *app, c *config.Config, resume bool) ([]launch.Fact, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program, err := fingerprint(executable)
	if err != nil {
		return nil, err
	}
	list := []launch.Fact{{Key: "program", Value: build.Current().String() + " " + program},
		{Key: "--resume", Value: strconv.FormatBool(resume)},
		{Key: "the set of kernels", Value: strings.TrimSpace(vec.Best().Name + " " + a.getenv("VSETRAIN_BLAS"))}}
	for _, key := range config.Keys() {
		if !slices.Contains(notAgreed, key) {
			list = append(list, launch.Fact{Key: key, Value: c.Text(key)})
		}
	}
	for _, key := range []string{"data.noise_index", "data.mined"} {
		if mark, err := fingerprint(c.Text(key)); err == nil { // else the training says what is missing
			list = append(list, launch.Fact{Key: "the content of " + key, Value: mark})
		}
	}
	entries, err := os.ReadDir(c.Data.Dir)
	if err != nil {
		return nil, nil // the training says what is missing
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || e.IsDir() {
			continue
		}
		mark, err := fingerprint(filepath.Join(c.Data.Dir, e.Name()))
		if err != nil {
			return nil, err
		}
		names = append(names, e.Name())
		list = append(list, launch.Fact{Key: "file " + e.Name() + " of data.dir", Value: mark})
	}
	return append(list, launch.Fact{Key: "the list of files in data.dir", Value: strings.Join(names, " ")}), nil
}

// fingerprint tells files of one name apart: by the size, and the content of the first and last 64 KiB.
func fingerprint(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	const end = 64 << 10
	h := sha256.New()
	for _, from := range []int64{0, max(0, info.Size()-end)} {
		if _, err := io.Copy(h, io.NewSectionReader(f, from, end)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d bytes %x", info.Size(), h.Sum(nil)[:6]), nil
}

// join makes this process a rank of the training: all of them start, or none. Rank 0 prints; others say only what rank
// 0 cannot know.
func (s *trainSession) join(ctx context.Context, o *rankFlags, p launch.Place, c *config.Config, dir string,
	resume bool) error {
	a := s.app
	list, err := facts(a, c, resume)
	if err != nil {
		return err
	}
	program, err := programPath()
	if err != nil {
		return err
	}
	if p.Rank > 0 {
		a.Out = io.Discard
	}
	s.rank = p
	m, err := launch.Join(ctx, launch.Options{Place: p, Procs: o.Procs, Command: append([]string{program},
		os.Args[1:]...), Env: a.Environ, MPI: mpi.Search("/", a.getenv), Facts: list, Wait: o.Wait,
		Notice: func(text string) { a.Warnf("%s", text) },
		Exit: func(f *launch.Failure) {
			err := s.ended(f, dir)
			a.Errorf("%v", err)
			s.abandon()
			var coded *codedError
			if errors.As(err, &coded) {
				os.Exit(coded.code)
			}
			os.Exit(exitFailure)
		}})
	if p.Child { // rank 0 tells
		var other *launch.Failure
		if err == nil || errors.As(err, &other) {
			a.Err = io.Discard
		}
	}
	s.member = m
	if errors.Is(err, context.Canceled) {
		return train.ErrInterrupted
	}
	return s.ended(err, dir)
}

// leave ends the rank: in order with the others, or with an error that they are told.
func (s *trainSession) leave(err error, dir string) error {
	if s.member == nil {
		return err
	}
	if err != nil && !errors.Is(err, train.ErrInterrupted) {
		s.member.Fail(err)
		return err
	}
	if other := s.member.Leave(); other != nil {
		return s.ended(other, dir)
	}
	return err
}

// ended explains an error that another rank is the cause of. Where a rank was lost, the run can be resumed.
func (s *trainSession) ended(err error, dir string) error {
	var f *launch.Failure
	if !errors.As(err, &f) || !f.Lost {
		return err
	}
	begun, _ := runfs.Exists(filepath.Join(dir, runfs.ConfigName))
	if !begun {
		return &codedError{fmt.Errorf("%w; start it again", f), exitInterrupted}
	}
	return &codedError{fmt.Errorf("%w; continue with --resume: vsetrain train --resume --run %s, on as many ranks as "+
		"you like", f, dir), exitInterrupted}
}
