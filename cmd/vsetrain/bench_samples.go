package main

import (
	"context"

	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/run/bench"
	"vsetrain/internal/run/config"
)

// runSamples measures computation time over the number of samples.
func (o *benchOptions) runSamples(ctx context.Context, a *app, cfg *config.Resolved) error {
	if err := canWrite(o.Samples); err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	bars := phases{app: a}
	r, err := bench.Samples(ctx, bench.SamplesRequest{Config: &cfg.Config, BLAS: a.getenv("VSETRAIN_BLAS"),
		Warn: a.warn, Losses: o.Losses, Subsets: o.Subsets, StepImages: o.StepImages, Now: a.Now,
		Progress: bars.show})
	bars.close()
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(o.Samples, indented(r)); err != nil {
		return err
	}
	_, t := report.Timing(&r)
	a.Print(t.Text(nil))
	a.Printf("\n%s: draw it with 'vsetrain report --timing %s --html times.html'\n", o.Samples, o.Samples)
	return nil
}
