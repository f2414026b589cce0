package bench

import (
	"context"
	"fmt"
	"time"

	"vsetrain/internal/compute/device/cuda"
	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/internal/run/place"
)

// Profile is the table of a training step: what every kernel moves and computes, its predicted time on a GPU, and
// with measured, which needs a GPU, its time there. Where r.Model is empty the GPU that is there must be one of
// package model.
func Profile(ctx context.Context, r Request, measured bool) (*model.Table, error) {
	name := r.Model
	if measured {
		r.Model = ""
	}
	c := *r.Config
	c.Device.Capture = "never" // a kernel of a recording cannot be timed alone
	r.Config = &c
	b := newBench(r)
	defer b.Close()
	if _, err := b.open(ctx); err != nil {
		return nil, place.Explain(err, c.Device, "no step had been done")
	}
	p, ok := b.Device.(cuda.Profiler)
	if !ok {
		return nil, fmt.Errorf("kernels are timed on a GPU alone, this is %s; --model alone predicts without one",
			b.Device.Name())
	}
	g, err := modelOf(name, b.Device.Name())
	if err != nil {
		return nil, err
	}
	t := stepTimer{step: b.Step, lr: c.Optim.LR, now: time.Now}
	var of model.Batch
	step := func() error {
		x, err := b.Next()
		if err != nil {
			return err
		}
		of = batchOf(x.Lengths)
		if err := t.do(x, b.Release); err != nil {
			return err
		}
		return t.finish()
	}
	for range max(r.Warmup, syntheticBatches) { // the largest shapes have been met, and memory lies where it stays
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := step(); err != nil {
			return nil, place.Explain(err, c.Device, "no step was timed")
		}
	}
	calls, err := p.Profile(measured, step)
	if err != nil {
		return nil, place.Explain(err, c.Device, "no step was timed")
	}
	return model.Predict(g, of, calls)
}
