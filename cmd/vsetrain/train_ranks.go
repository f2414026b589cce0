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

// settings returns the configuration of a rank, and gives this process its device. It copies the configuration, as the
// run stores nothing that depends on the number of ranks.
func (s *trainSession) settings(o *rankFlags, c *config.Config, p launch.Place) (*config.Config, error) {
	if p.Ranks > c.Train.Batch {
		return nil, usagef("%d ranks, but train.batch is %d: each rank needs at least one caption; start fewer",
			p.Ranks, c.Train.Batch)
	}
	own := *c
	return &own, o.placeDevice(s.app, p, &own.Device)
}

// notAgreed are settings that may differ between ranks: paths, and settings that change no result.
var notAgreed = []string{"data.dir", "run.dir", "run.lock", "device.threads", "device.index", "device.timeout",
	"track.mlflow"}

// facts appends what all ranks of a training must agree on.
func facts(list []launch.Fact, c *config.Config, resume bool) ([]launch.Fact, error) {
	list = append(list, launch.Fact{Key: "--resume", Value: strconv.FormatBool(resume)})
	for _, key := range config.Keys() {
		if !slices.Contains(notAgreed, key) {
			list = append(list, launch.Fact{Key: key, Value: c.Text(key)})
		}
	}
	for _, key := range []string{"data.noise_index", "data.mined"} {
		if mark, err := integrity.MarkOf(c.Text(key)); err == nil { // the training reports a missing file
			list = append(list, launch.Fact{Key: "the content of " + key, Value: mark.String()})
		}
	}
	marks, err := inputs.Fingerprint(c.Data.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the training reports the missing folder
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

// errNotBegun is the error of a rank that was interrupted before it trained.
var errNotBegun = errors.New("interrupted while it waited for the other ranks; nothing was trained; start it again")

// divided trains one run, as a rank of a job or alone.
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

// leave ends the rank together with the others, or tells them its error.
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

// ended adds how to continue to an error that a lost rank caused.
func (s *trainSession) ended(err error, dir string) error {
	var f *launch.Failure
	if !errors.As(err, &f) || !f.Lost {
		return err
	}
	begun, _ := runfs.Exists(filepath.Join(dir, runfs.ConfigName))
	if !begun {
		return &codedError{fmt.Errorf("%w; start it again", f), exitInterrupted}
	}
	return &codedError{fmt.Errorf("%w; continue with --resume: vsetrain train --resume --run %s, on any number of "+
		"ranks", f, dir), exitInterrupted}
}
