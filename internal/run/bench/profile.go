package bench

import (
	"context"
	"fmt"

	"vsetrain/internal/run/placement"
)

// Profile times the kernels of r.Steps training steps one by one and returns their means.
func Profile(ctx context.Context, r Request) (*Profiled, error) {
	c := *r.Config
	c.Device.Capture = "never" // a kernel of a recording cannot be timed alone
	r.Config = &c
	b := newBench(r)
	b.watch = &stopwatch{now: r.Now}
	defer b.Close()
	if _, err := b.open(ctx); err != nil {
		return nil, placement.Explain(err, c.Device, "no step had been done")
	}
	p, err := b.profile(ctx)
	return p, placement.Explain(err, c.Device, "no step was timed")
}

func (b *bench) profile(ctx context.Context) (*Profiled, error) {
	limits, err := limitsOf(b.Device, b.r.Now)
	if err != nil {
		return nil, err
	}
	t := stepTimer{step: b.Step, lr: b.Cfg.Optim.LR, now: b.r.Now}
	step := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, err := b.Next()
		if err != nil {
			return err
		}
		if err := t.do(x, b.Release); err != nil {
			return err
		}
		return t.finish()
	}
	warmup := max(b.r.Warmup, syntheticBatches) // until the largest shapes have been seen and all memory is allocated
	for i := range warmup + b.r.Steps {
		do := step
		if i >= warmup {
			do = func() error { return b.watch.time(step) }
		}
		if err := do(); err != nil {
			return nil, fmt.Errorf("step %d: %w", i+1, err)
		}
		if b.r.Progress != nil {
			b.r.Progress(i+1, warmup+b.r.Steps)
		}
	}
	p := b.watch.table(limits, b.r.Steps)
	p.Device = b.Device.Name()
	for _, ms := range t.times[warmup:] {
		p.StepMS += ms / float64(b.r.Steps)
	}
	return p, nil
}
