package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/compute/device/cuda/driver"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/launch"
	"vsetrain/train"
)

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
	if p.Ranks > c.Train.Batch {
		return nil, usagef("%d ranks, but train.batch is %d: each rank needs at least one caption; start fewer",
			p.Ranks, c.Train.Batch)
	}
	own := *c
	return &own, onProcessors(p, &own.Device)
}

// notAgreed are settings that may differ from rank to rank: where something is, and what changes no result.
var notAgreed = []string{"data.dir", "run.dir", "device.threads", "device.index", "track.mlflow"}

// facts are what all ranks must agree on.
func facts(a *app, c *config.Config, resume bool) ([]launch.Fact, error) {
	list, err := programFacts(a)
	if err != nil {
		return nil, err
	}
	list = append(list, launch.Fact{Key: "--resume", Value: strconv.FormatBool(resume)})
	for _, key := range config.Keys() {
		if !slices.Contains(notAgreed, key) {
			list = append(list, launch.Fact{Key: key, Value: c.Text(key)})
		}
	}
	for _, key := range []string{"data.noise_index", "data.mined"} {
		if mark, err := integrity.MarkOf(c.Text(key)); err == nil { // else the training says what is missing
			list = append(list, launch.Fact{Key: "the content of " + key, Value: mark.String()})
		}
	}
	marks, err := inputs.Fingerprint(c.Data.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the training says what is missing
	}
	names := slices.Sorted(maps.Keys(marks))
	for _, name := range names {
		list = append(list, launch.Fact{Key: "file " + name + " of data.dir", Value: marks[name].String()})
	}
	return append(list, launch.Fact{Key: "the list of files in data.dir", Value: strings.Join(names, " ")}), err
}

// join makes this process a rank of the training.
func (s *trainSession) join(ctx context.Context, o *rankFlags, p launch.Place, c *config.Config, dir string,
	resume bool) error {
	a := s.app
	list, err := facts(a, c, resume)
	if err != nil {
		return err
	}
	s.rank = p
	s.member, err = o.join(ctx, a, p, list, func(f *launch.Failure) {
		err := s.ended(f, dir)
		a.Errorf("%v", err)
		s.abandon()
		var coded *codedError
		if errors.As(err, &coded) {
			os.Exit(coded.code)
		}
		os.Exit(exitFailure)
	})
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
		return s.ended(s.member.Fail(err), dir)
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
