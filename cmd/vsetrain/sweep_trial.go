package main

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/probe"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/train"
)

// lockPatience is how long a trial waits for its run directory: the process of a killed worker needs a moment to save
// its state.
const lockPatience = time.Minute

type sweepTrialOptions struct {
	Dir             string
	Epochs, Threads int
}

// newCmdSweepTrial returns the command that a worker starts for a trial. It ends when its standard input does.
func newCmdSweepTrial(a *app) *cobra.Command {
	o := &sweepTrialOptions{}
	c := &cobra.Command{
		Use:    "trial DIR",
		Short:  "Train one trial up to some epochs, or until standard input ends",
		Hidden: true,
		Args:   oneArg("DIR", &o.Dir),
		RunE:   a.runs(o),
	}
	c.Flags().IntVar(&o.Epochs, "epochs", 0, "train up to so many epochs")
	c.Flags().IntVar(&o.Threads, "threads", 0, "CPU threads; 0 uses all processors")
	return c
}

func (o *sweepTrialOptions) run(ctx context.Context, a *app) error {
	cfg, err := config.Load(config.Request{File: filepath.Join(o.Dir, "trial.yaml")})
	if err != nil {
		return err
	}
	c := &cfg.Config
	c.Optim.Settle(c.Train.Epochs) // for all epochs of the trial, not for those of its rung
	c.Train.Epochs, c.Device.Threads, c.Run.Dir = o.Epochs, o.Threads, o.Dir
	w := &trainView{app: a, cfg: c, dir: o.Dir}
	w.saved.Store(nowhere)
	defer w.close()
	ctx, stop := a.saving(ctx, w.abandon)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the worker closes the pipe, or is gone
		io.Copy(io.Discard, a.In) // either way the pipe has ended
		cancel()
	}()
	for begin := time.Now(); ; time.Sleep(time.Second) {
		var begun bool
		if begun, err = runfs.Exists(filepath.Join(o.Dir, runfs.ConfigName)); err != nil {
			return err
		}
		_, err = training.Train(ctx, training.Request{Config: c, RunDir: o.Dir, Resume: begun,
			BLAS: a.getenv("VSETRAIN_BLAS"), Env: session(a.Now()), Now: time.Now, Observer: w, FreeDisk: probe.Free,
			FreeMemory: freeMemory, Saved: w.saved.Store, Tracking: a.tracking(c.Track)})
		if !errors.Is(err, runfs.ErrLocked) || time.Since(begin) > lockPatience || ctx.Err() != nil {
			break
		}
	}
	// The process that has the directory may be that of a worker whose disk stands still: the trial goes on later.
	if errors.Is(err, train.ErrInterrupted) || errors.Is(err, runfs.ErrLocked) {
		return &codedError{err, exitInterrupted}
	}
	return err
}
