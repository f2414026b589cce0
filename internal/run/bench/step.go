package bench

import (
	"time"

	"vsetrain/data"
	"vsetrain/internal/run/records"
	"vsetrain/train"
)

// stepTimer runs steps as training does. If the device allows it, each step is started before the result of the
// previous one is read.
type stepTimer struct {
	step    *train.Step
	lr      float64
	now     func() time.Time
	pending func()    // releases the batch of a started, unfinished step; nil if there is none
	since   time.Time // when its time began
	times   []float64 // of the finished steps, in Milliseconds
	last    train.StepResult
}

// do runs a step on a batch, or starts it and finishes the previous one. A batch is released when its step is finished.
func (t *stepTimer) do(x *data.Batch, release func(*data.Batch)) error {
	start := t.now()
	if err := t.step.Start(x, t.lr, false); err != nil {
		return err
	}
	if t.pending != nil {
		if err := t.finish(); err != nil {
			return err
		}
		start = t.since
	}
	t.pending, t.since = func() { release(x) }, start
	if t.step.Depth() == 1 {
		return t.finish()
	}
	return nil
}

// finish waits for the step that was started.
func (t *stepTimer) finish() error {
	if t.pending == nil {
		return nil
	}
	r, err := t.step.Finish()
	t.pending()
	t.pending = nil
	now := t.now()
	t.last = r
	t.times = append(t.times, records.Milliseconds(now.Sub(t.since)))
	t.since = now
	return err
}
