package main

import (
	"context"

	"vsetrain/internal/sweep"
)

func (o *sweepRunOptions) kubernetes(ctx context.Context, a *app, plan *sweep.Plan) error { return nil }
func printManifest(a *app, plan *sweep.Plan) error                                        { return nil }
