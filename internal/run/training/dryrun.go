package training

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/placement"
)

// DryRunReport is what a dry run measured, and the predicted cost of the whole run.
type DryRunReport struct {
	FirstStep, Step time.Duration // the first, which builds graphs and reads cold files; the median of the later ones
	Loss            float64       // of the first step
	Validation      time.Duration
	Metrics         eval.Metrics // of the validation
	Steps           int64        // of the whole run
	Validations     int64
	Whole           time.Duration // of steps and validations; early stopping may end it sooner
	Weights, Last   int64         // bytes of the checkpoints at the end: of weights, and of the state
	FreeDisk        int64         // bytes; 0 is unknown
}

// Disk returns the bytes that the checkpoints take at the end, and at most, while the largest one is being replaced.
func (r *DryRunReport) Disk() (end, most int64) {
	return r.Weights + r.Last, r.Weights + 2*r.Last
}

// drySteps is the number of steps of a dry run.
const drySteps = 6

// DryRun does everything that a training does before its first step, then a few steps and a validation. It writes
// nothing. The observer receives the plan and the progress of the validation.
func DryRun(ctx context.Context, r Request) (rep DryRunReport, err error) {
	t := newTraining(r)
	defer t.close()
	if err := t.openDry(ctx); err != nil {
		return rep, placement.Explain(err, t.Cfg.Device, "no step had been done")
	}
	defer func() { err = placement.Explain(err, t.Cfg.Device, "a dry run keeps nothing") }()
	var later []time.Duration
	for i := range drySteps {
		start := t.Now()
		loss, _, err := t.dryStep(ctx, t.Cfg.Optim.LearningRate(int64(i), t.Loader.BatchesPerEpoch()))
		if err != nil {
			return rep, fmt.Errorf("step %d: %w", i+1, err)
		}
		if d := t.Now().Sub(start); i == 0 {
			rep.FirstStep, rep.Loss = d, loss
		} else {
			later = append(later, d)
		}
	}
	slices.Sort(later)
	rep.Step = later[len(later)/2]
	start := t.Now()
	if rep.Metrics, err = t.validate(ctx); err != nil {
		return rep, fmt.Errorf("validation: %w", err)
	}
	rep.Validation = t.Now().Sub(start)
	rep.Steps, rep.Validations = t.Cfg.Train.Planned(t.Loader.BatchesPerEpoch())
	each := rep.Validation
	if t.Step.Averages() {
		each *= 2
	}
	rep.Whole = time.Duration(rep.Steps)*rep.Step + time.Duration(rep.Validations)*each
	rep.Weights, rep.Last = t.checkpointSizes()
	rep.FreeDisk, _ = t.freeDisk() // unknown where it cannot be read
	return rep, nil
}

// openDry opens what a run needs without writing anything. An existing run in the directory does not change.
func (t *training) openDry(ctx context.Context) (err error) {
	if t.World != nil {
		return errors.New("dry runs and range tests have one rank: start one process")
	}
	defer func() { err = inputs.NameFolder(err, "data.dir", nil) }()
	if err := t.openData(); err != nil {
		return err
	}
	_, plan, err := t.build(ctx)
	if err != nil {
		return err
	}
	t.show(plan)
	return nil
}

// dryStep trains on the next batch and returns the loss and the number of pairs.
func (t *training) dryStep(ctx context.Context, lr float64) (loss float64, pairs int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	var b *data.Batch
	if b, err = t.Loader.Next(); err != nil {
		return 0, 0, err
	}
	defer t.Loader.Release(b)
	r, err := t.Step.Run(b, lr, t.Cfg.Loss.WarmupEpochs > 0)
	return r.Loss, b.Pairs(), err
}
