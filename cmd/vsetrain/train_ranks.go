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

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/launch"
	"vsetrain/internal/run/training"
	"vsetrain/train"
)

// settings returns the configuration of a rank, and gives this process its device. What is stored with the run does not
// depend on the number of ranks.
func (s *trainSession) settings(o *rankFlags, c *config.Config, p launch.Place) (*config.Config, error) {
	if p.Ranks > c.Train.Batch {
		return nil, usagef("%d ranks, but train.batch is %d: each rank needs at least one caption; start fewer",
			p.Ranks, c.Train.Batch)
	}
	own := *c
	return &own, o.placeDevice(s.app, p, &own.Device)
}

// notAgreed are settings that may differ from rank to rank: where something is, and what changes no result.
var notAgreed = []string{"data.dir", "run.dir", "run.lock", "device.threads", "device.index", "device.timeout",
	"track.mlflow"}

// facts are what all ranks must agree on.
func facts(list []launch.Fact, c *config.Config, resume bool) ([]launch.Fact, error) {
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
	list, err := o.programFacts(a, &c.Device)
	if err != nil {
		return err
	}
	if list, err = facts(list, c, resume); err != nil {
		return err
	}
	s.rank = p
	s.member, err = o.join(ctx, a, p, list, func(f *launch.Failure) {
		err := s.ended(f, dir)
		a.Errorf("%v", err)
		s.abandon()
		if coded, ok := errors.AsType[*codedError](err); ok {
			os.Exit(coded.code)
		}
		os.Exit(exitFailure)
	})
	if errors.Is(err, context.Canceled) {
		return errNotBegun
	}
	return s.ended(err, dir)
}

// errNotBegun is a rank that was interrupted before it trained.
var errNotBegun = errors.New("interrupted while it waited for the other ranks; nothing was trained; start it again")

// divided trains one run on the ranks of a job, of which this process is one, or alone.
func (s *trainSession) divided(ctx context.Context, o *rankFlags, p launch.Place, c *config.Config, dir string,
	resume bool) (out training.Outcome, err error) {
	if p.Ranks > 1 || o.GPUs != "" {
		if c, err = s.settings(o, c, p); err != nil {
			return out, err
		}
	}
	if p.Ranks > 1 {
		if err := s.join(ctx, o, p, c, dir, resume); err != nil {
			return out, err
		}
		var stop context.CancelFunc
		ctx, stop = s.member.Context(ctx)
		defer stop()
	}
	out, err = s.train(ctx, c, dir, resume)
	return out, s.leave(err, dir)
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
