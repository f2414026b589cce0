package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/run/bench"
	"vsetrain/internal/run/config"
)

// runSamples measures computation time over the number of samples.
func (o *benchOptions) runSamples(ctx context.Context, a *app, cfg *config.Resolved) error {
	if o.Subsets < 2 || o.StepImages < 0 {
		return usagef("expected --subsets >= 2 and --step-images >= 0")
	}
	if st, err := os.Stat(filepath.Dir(o.Samples)); err != nil || !st.IsDir() { // before the work, not after it
		return fmt.Errorf("cannot write %s: %s is no folder; make it first", o.Samples, filepath.Dir(o.Samples))
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
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(o.Samples, atomicfile.Bytes(append(b, '\n'))); err != nil {
		return err
	}
	_, t := report.Timing(&r)
	a.Print(t.Text(nil))
	a.Printf("\n%s: draw it with 'vsetrain report --timing %s --html times.html'\n", o.Samples, o.Samples)
	return nil
}
