package main

import (
	"context"
	"fmt"

	"vsetrain/cmd/vsetrain/internal/probe"
	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
)

// dryRequest returns a training request that writes nothing, and its view, which shows only the plan.
func dryRequest(a *app, cfg *config.Config, dir string) (training.Request, *trainView) {
	w := &trainView{app: a, cfg: cfg, dry: true, resident: phases{app: a}}
	return training.Request{Config: cfg, RunDir: dir, BLAS: a.getenv("VSETRAIN_BLAS"), Env: session(a.Now()),
		Now: a.Now, Observer: w, FreeDisk: probe.Free, FreeMemory: freeMemory,
		Copying: func(done, total int) { w.resident.show("features to the GPU", done, total) }}, w
}

// dryRun checks a run and estimates its time and memory.
func (o *trainOptions) dryRun(ctx context.Context, a *app) error {
	cfg, dir, err := o.configuration(a)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	r, w := dryRequest(a, cfg, dir)
	rep, err := training.DryRun(ctx, r)
	w.close()
	if err != nil {
		return err
	}
	end, most := rep.Disk()
	disk := fmt.Sprintf("%s of checkpoints in %s, %s while one is replaced", ui.Bytes(end), dir, ui.Bytes(most))
	if rep.FreeDisk > 0 {
		disk += fmt.Sprintf("; %s are free", ui.Bytes(rep.FreeDisk))
	}
	whole := fmt.Sprintf("about %s for %s and %s", ui.Duration(rep.Whole), ui.Count(int(rep.Steps), "step"),
		ui.Count(int(rep.Validations), "validation"))
	if cfg.Train.EarlyStop > 0 {
		whole += ", or less by train.early_stop"
	}
	t := ui.NewTable("dry run", "")
	t.Row("step", fmt.Sprintf("%s (the first %s), loss %.4g", ui.Duration(rep.Step), ui.Duration(rep.FirstStep),
		rep.Loss))
	t.Row("validation", fmt.Sprintf("%s, M-Recall %.2f", ui.Duration(rep.Validation), rep.Metrics.MRecall))
	t.Row("whole run", whole)
	t.Row("disk", disk)
	if n := peakMemory(); n > 0 {
		t.Row("host memory", ui.Bytes(n)+" at most so far")
	}
	t.Write(a.Streams)
	a.Printf("nothing was written\n")
	return nil
}
