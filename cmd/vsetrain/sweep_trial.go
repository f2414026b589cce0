package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/train"
)

// lockPatience is how long a trial waits for its run directory: the trial of a killed worker needs time to save its
// state.
const lockPatience = time.Minute

type sweepTrialOptions struct {
	Dir     string `args:"DIR"`
	Epochs  int    `flag:"epochs" need:"yes" min:"1" usage:"train up to this epoch"`
	Threads int    `flag:"threads" min:"0" usage:"CPU threads; 0 uses all processors"`
	rankFlags
}

// newCmdSweepTrial returns the command that a worker starts for a trial. It ends when its standard input does.
func newCmdSweepTrial(a *app) *cobra.Command {
	return a.command(&sweepTrialOptions{}, &cobra.Command{
		Use:    "trial DIR",
		Short:  "Train one trial up to some epochs, or until standard input ends",
		Hidden: true,
	})
}

func (o *sweepTrialOptions) run(ctx context.Context, a *app) error {
	place, err := o.place(a)
	if err != nil {
		return err
	}
	cfg, err := config.Load(config.Request{File: filepath.Join(o.Dir, "trial.yaml")})
	if err != nil {
		return err
	}
	c := &cfg.Config
	c.Optim.Settle(c.Train.Epochs) // for all epochs of the trial, not for the epochs of its rung
	if o.Epochs < c.Train.Epochs { // it may continue, so settings for later epochs are not mistakes
		c = c.Unchosen()
	}
	c.Train.Epochs, c.Device.Threads, c.Run.Dir = o.Epochs, o.Threads, o.Dir
	s := newTrainSession(a, c)
	ctx, stop := a.saving(ctx, s.abandon)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !place.Child { // rank 0 has the pipe, and stops the others
		go func() { // the pipe ends when the worker closes it or dies
			io.Copy(io.Discard, a.In)
			cancel()
		}()
		if err := unlocked(ctx, o.Dir); err != nil {
			return err
		}
	}
	begun, err := runfs.Exists(filepath.Join(o.Dir, runfs.ConfigName))
	if err != nil {
		return err
	}
	_, err = s.divided(ctx, &o.rankFlags, place, c, o.Dir, begun)
	switch {
	case errors.Is(err, train.ErrInterrupted), errors.Is(err, errNotBegun):
		return &codedError{err, exitInterrupted}
	case errors.Is(err, runfs.ErrLocked):
		return &codedError{err, sweep.ExitLocked}
	}
	return err
}

// unlocked waits until no other process works in a run directory, before the ranks meet.
func unlocked(ctx context.Context, dir string) error {
	for begin := time.Now(); ; time.Sleep(time.Second) {
		d, err := runfs.Open(dir, runfs.Owner{PID: os.Getpid(), Since: time.Now()})
		switch {
		case err == nil:
			return d.Close()
		case errors.Is(err, runfs.ErrLocked) && (ctx.Err() != nil || time.Since(begin) > lockPatience):
			return &codedError{err, sweep.ExitLocked}
		case !errors.Is(err, runfs.ErrLocked):
			return err
		}
	}
}
