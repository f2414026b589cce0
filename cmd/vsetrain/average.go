package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/checkpoints"
)

type averageOptions struct {
	Checkpoints []string `args:"CHECKPOINT CHECKPOINT..."`
	Out         string   `flag:"out" arg:"FILE" usage:"FILE to write" empty:"average.safetensors beside the checkpoints, if they are of one run"`
	Force       bool     `flag:"force" usage:"replace an existing file"`
	weightFlag
}

func newCmdAverage(a *app) *cobra.Command {
	return a.command(&averageOptions{}, &cobra.Command{
		Use:   "average CHECKPOINT CHECKPOINT...",
		Short: "Write the mean of the weights of several checkpoints",
		Long: `Average the weights and running statistics of several checkpoints of one
network (a "soup"), files or run directories (their best checkpoints). The mean
has not been validated: measure it with eval.`,
		Example: `  vsetrain average runs/a/checkpoints/best.safetensors runs/a/checkpoints/last.safetensors
  vsetrain average runs/seed1 runs/seed2 --out soup.safetensors`,
	})
}

func (o *averageOptions) check(*app) error {
	if len(o.Checkpoints) < 2 {
		return usagef("expected two checkpoints or more, found %d", len(o.Checkpoints))
	}
	return nil
}

func (o *averageOptions) run(_ context.Context, a *app) error {
	out, network, err := checkpoints.Average(checkpoints.AverageRequest{Checkpoints: o.Checkpoints, Out: o.Out,
		Force: o.Force, Set: o.Set, Warn: a.warn})
	if errors.Is(err, checkpoints.ErrSeveralRuns) {
		return usagef("%v", err)
	}
	if err != nil {
		return err
	}
	a.Printf("mean of %d checkpoints of %s in %s\n", len(o.Checkpoints), network, out)
	return nil
}
