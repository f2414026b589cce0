package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/checkpoints"
)

type averageOptions struct{ checkpoints.AverageRequest }

func newCmdAverage(a *app) *cobra.Command {
	o := &averageOptions{}
	c := &cobra.Command{
		Use:   "average CHECKPOINT CHECKPOINT...",
		Short: "Write the mean of the weights of several checkpoints",
		Long: `Average checkpoints of one network, a "soup": every weight and running statistic. They must have the same
options, sizes and vocabulary, and should come from one run (train.keep keeps the best ones) or from runs that began
with the same weights.

A checkpoint is a run directory (its best checkpoint) or a file, as for eval. The mean has not been validated: measure
it with eval.`,
		Example: `  vsetrain average runs/a/checkpoints/best.safetensors runs/a/checkpoints/last.safetensors
  vsetrain average runs/seed1 runs/seed2 --out soup.safetensors`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("expected two checkpoints or more, found %d", len(args))
			}
			o.Checkpoints = args
			return nil
		},
		RunE: a.runs(o),
	}
	f := c.Flags()
	f.StringVar(&o.Out, "out", "", "`FILE` to write; empty is average.safetensors beside the checkpoints of one run")
	f.BoolVar(&o.Force, "force", false, "replace an existing file")
	addWeightFlag(f, &o.Set)
	return c
}

func (o *averageOptions) run(_ context.Context, a *app) error {
	o.Warn = a.warn
	out, network, err := checkpoints.Average(o.AverageRequest)
	if errors.Is(err, checkpoints.ErrSeveralRuns) {
		return usagef("%v", err)
	}
	if err != nil {
		return err
	}
	a.Printf("mean of %d checkpoints of %s in %s\n", len(o.Checkpoints), network, out)
	return nil
}
