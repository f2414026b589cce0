package main

import (
	"context"

	"github.com/spf13/cobra"
)

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
