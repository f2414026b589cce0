package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/sweep"
)

type sweepRunOptions struct {
	sweepFlags
	launcherFlag
	Workers int  `flag:"workers" min:"0" usage:"trials to run at a time; 0 takes the sweep's number"`
	Threads int  `flag:"threads" min:"0" usage:"CPU threads per trial; 0 takes the sweep's number, or a share of the processors"`
	Retry   bool `flag:"retry" usage:"try failed trials again"`
	Apply   bool `flag:"apply" usage:"kubernetes: pass the manifest to kubectl apply"`
	DryRun  bool `flag:"dry-run" usage:"slurm and kubernetes: write the files, submit nothing"`
}

func newCmdSweepRun(a *app) *cobra.Command {
	return a.command(&sweepRunOptions{}, &cobra.Command{
		Use:   "run",
		Short: "Train the trials of a sweep, or continue them",
		Long: `Train what is left of a sweep: on this machine (launcher local, the default), as
a Slurm job array or as an Indexed Job of Kubernetes. The same command continues
an interrupted sweep.

Launcher local runs several trials at a time, each in a separate process with a share of the processors, or with a
GPU. A terminal shows how many are done, the best result so far and the time left. slurm submits a job array, and a
job that collects after it. kubernetes writes the manifest, and applies it with --apply.`,
		Example: `  vsetrain sweep run --config demo --workers 2
  vsetrain sweep run --config demo --launcher slurm --dry-run`,
	})
}

func (o *sweepRunOptions) run(ctx context.Context, a *app) error {
	plan, store, err := o.load()
	if err != nil {
		return err
	}
	if err := o.choose(plan.Def); err != nil {
		return err
	}
	l := &plan.Def.Launch
	switch {
	case o.DryRun && l.Kind == sweep.Local:
		return usagef("--dry-run: launcher local writes no files beforehand; 'vsetrain sweep plan' lists the trials")
	case o.Apply && l.Kind != sweep.OnKubernetes:
		return usagef("--apply belongs to launcher kubernetes, found %s; leave it out", l.Kind)
	}
	if o.Retry {
		if err := retry(a, plan, store); err != nil {
			return err
		}
	}
	l.Workers, l.Threads = cmp.Or(o.Workers, l.Workers), cmp.Or(o.Threads, l.Threads)
	switch l.Kind {
	case sweep.OnSlurm:
		return o.slurm(ctx, a, plan, store)
	case sweep.OnKubernetes:
		return o.kubernetes(ctx, a, plan, store)
	}
	if err := checkData(plan); err != nil { // once, instead of once per trial
		return fmt.Errorf("no trial was started: %w", err)
	}
	return work(ctx, a, plan, store, -1, "")
}

// retry removes the records of failures.
func retry(a *app, plan *sweep.Plan, store *sweep.Store) error {
	states, err := plan.States(store)
	if err != nil {
		return err
	}
	for _, s := range states {
		if s.Failed == nil {
			continue
		}
		if err := store.Retry(s); err != nil {
			return err
		}
		a.Printf("again: trial %s: %s\n", trialName(s.Trial), plan.Def.ShortText(s.Point))
	}
	return nil
}

// work runs a worker in this process. Its error gives the number of failed trials, or is an interruption.
func work(ctx context.Context, a *app, plan *sweep.Plan, store *sweep.Store, index int, job string) error {
	exe, err := programPath()
	if err != nil {
		return err
	}
	l := plan.Def.Launch
	slots := l.Parallel()
	threads := cmp.Or(l.Threads, max(runtime.GOMAXPROCS(0)/slots, 1))
	ctx, stop := a.saving(ctx, func() {
		a.Errorf("stopped at once; running trials save their state, and the same command continues them")
	})
	defer stop()
	v := &sweepView{app: a, plan: plan, store: store}
	w := &sweep.Worker{Plan: plan, Store: store, Parallel: slots, Threads: threads, GPUs: l.GPUs, Each: l.GPUsPerTrial,
		Index: index, Job: job, Now: a.Now, Beat: 5 * time.Second, Poll: 500 * time.Millisecond,
		Child: func(dir string, epochs, threads int) *exec.Cmd {
			c := exec.Command(exe, "sweep", "trial", dir, "--epochs", strconv.Itoa(epochs), "--threads",
				strconv.Itoa(threads))
			switch {
			case l.GPUsPerTrial > 1:
				c.Args = append(c.Args, "--gpus", strconv.Itoa(l.GPUsPerTrial))
			case l.ProcsPerTrial > 1:
				c.Args = append(c.Args, "--procs", strconv.Itoa(l.ProcsPerTrial))
			}
			c.Env = a.Environ
			return c
		},
		Report: v.event}
	if index < 0 {
		if err := v.open(); err != nil {
			return err
		}
	}
	err = w.Run(ctx)
	v.bar.Close()
	if errors.Is(err, sweep.ErrInterrupted) {
		return &codedError{err, exitInterrupted}
	} else if err != nil {
		return err
	}
	return summary(a, plan, store, index, v.failed)
}

func eventText(e sweep.Event, d *sweep.Definition) string {
	s := fmt.Sprintf("%-8s trial %s", e.Kind, trialName(e.Job.State.Trial))
	switch e.Kind {
	case sweep.Started:
		s += fmt.Sprintf(" up to epoch %d: %s", e.Job.Epochs, d.ShortText(e.Job.State.Point))
	case sweep.Finished:
		s += fmt.Sprintf(": %s, best %s %.2f at epoch %.1f", ui.Count(e.Result.Epochs, "epoch"), d.Metric,
			e.Result.Score, e.Result.BestEpoch)
	case sweep.Failed:
		s += ": " + e.Fail.Error
	}
	return s
}

// summary prints the state of the sweep. The error counts the failed trials of all sessions; with an index it is about
// that trial.
func summary(a *app, plan *sweep.Plan, store *sweep.Store, index, now int) error {
	st, err := sweep.ReadStatus(plan, store, a.Now())
	if err != nil {
		return err
	}
	a.Printf("%s\n", countsText(st))
	if index >= 0 {
		if l := st.Trials[index]; l.State == sweep.Failed {
			return fmt.Errorf("trial %s failed: %s", l.ID, l.Error)
		}
		return nil
	}
	if n := st.Counts[sweep.Failed]; n > 0 {
		return fmt.Errorf("%d of %d trials failed (%d now); vsetrain sweep status shows why, sweep run --retry tries "+
			"them again", n, len(st.Trials), now)
	}
	if st.Done {
		a.Printf("next: vsetrain sweep collect --config %s\n", plan.Def.File)
	}
	return nil
}

type sweepWorkerOptions struct {
	sweepFlags
	Index   int    `flag:"index" default:"-1" min:"-1" usage:"train only this trial of the plan, from 0; -1 trains all"`
	Threads int    `flag:"threads" min:"0" usage:"CPU threads; 0 uses all processors"`
	Job     string `flag:"job" arg:"NAME" empty:"none" usage:"NAME of the job, for status"`
}

func newCmdSweepWorker(a *app) *cobra.Command {
	return a.command(&sweepWorkerOptions{}, &cobra.Command{
		Use:   "worker",
		Short: "Train the trials of a sweep, one of several workers",
		Long: `Train one free trial after another until none is left. Any number of workers on
any number of machines can share the folder of a sweep. --index trains only that
trial of a grid or random search.`,
		Example: `  vsetrain sweep worker --config demo
  vsetrain sweep worker --config paper --index 3 --threads 8`,
	})
}

func (o *sweepWorkerOptions) run(ctx context.Context, a *app) error {
	plan, store, err := o.load()
	if err != nil {
		return err
	}
	if o.Index >= 0 && !plan.Indexed() {
		return usagef("--index: with method %s, results decide which trials come next, so a worker takes any trial; "+
			"leave it out", plan.Def.Method)
	}
	if o.Index >= len(plan.Trials) {
		return usagef("--index %d: the sweep has trials 0 to %d", o.Index, len(plan.Trials)-1)
	}
	// The job sets the processors and GPUs.
	plan.Def.Launch.Workers, plan.Def.Launch.Threads, plan.Def.Launch.GPUs = 1, o.Threads, nil
	return work(ctx, a, plan, store, o.Index, o.Job)
}
