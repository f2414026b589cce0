package main

import (
	"context"

	"vsetrain/internal/sweep"
)

func (o *sweepRunOptions) slurm(ctx context.Context, a *app, plan *sweep.Plan) error { return nil }
func printScript(a *app, plan *sweep.Plan) error                                     { return nil }
