package experiment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/train"
)

// Observer sees the progress of a training run.
type Observer interface {
	// Started is called once before the first step.
	Started(Plan)
	Step(train.StepInfo)
	// Validating reports how far a validation is: images and captions encoded, then, by networks that score pairs,
	// pairs scored.
	Validating(what ValidationPhase, done, total int)
	Validation(train.ValidationInfo)
	// Warning is something a person should know while training goes on.
	Warning(error)
}

// ValidationPhase is what a validation is doing.
type ValidationPhase string

// The phases of a validation.
const (
	Encoding ValidationPhase = "encoding"
	Scoring  ValidationPhase = "scoring pairs"
)

// Unobserved is an Observer that nobody looks at. Others embed it to see a part of the progress.
type Unobserved struct{}

// Started, Step, Validating, Validation and Warning do nothing.
func (Unobserved) Started(Plan)                         {}
func (Unobserved) Step(train.StepInfo)                  {}
func (Unobserved) Validating(ValidationPhase, int, int) {}
func (Unobserved) Validation(train.ValidationInfo)      {}
func (Unobserved) Warning(error)                        {}

// validateAverage validates the averaged weights.
func (t *training) validateAverage(ctx context.Context) (m eval.Metrics, err error) {
	err = t.step.WithAverage(func() error {
		m, err = t.validate(ctx)
		return err
	})
	return m, err
}

func (t *training) validate(ctx context.Context) (eval.Metrics, error) {
	if t.cfg.Train.Overfit > 0 {
		return t.validateBatches(ctx)
	}
	phase := func(what ValidationPhase) func(done, total int) {
		return func(done, total int) { t.Observer.Validating(what, done, total) }
	}
	s, err := eval.Score(ctx, t.pool, t.validation, t.val, t.vocab, eval.EncodeOptions{Batch: t.cfg.Train.Batch,
		Progress: phase(Encoding), Pairs: phase(Scoring), Warn: t.warnOnce})
	if err != nil {
		return eval.Metrics{}, err
	}
	m, err := eval.Measure(t.pool, s, t.val.CaptionsPerImage())
	m.Protocol = "dev"
	return m, err
}

func (t *training) onStep(i train.StepInfo) error {
	i.Usage = t.usage(t.Now())
	t.Observer.Step(i)
	if why := t.step.CallByCall(); why != t.callByCall { // the device could not record after all
		t.callByCall = why
		t.Observer.Warning(fmt.Errorf("training steps are started kernel by kernel: %s", why))
	}
	if !t.logs.due(i.Step) {
		return nil
	}
	for _, warning := range t.deviceWarnings() {
		t.Observer.Warning(errors.New(warning))
	}
	b := t.step.Last()
	similar, err := t.falseNegatives(b)
	if err != nil {
		return err
	}
	err = t.logs.step(i, b.Negatives(), similar)
	t.tracked()
	return err
}

// usage looks at the device once a second.
func (t *setup) usage(now time.Time) *device.Usage {
	g, ok := device.As[device.Gauge](t.dev)
	if !ok {
		return nil
	}
	if now.Sub(t.gauged) >= time.Second {
		t.gauged, t.used = now, nil
		if u, ok := g.Usage(); ok {
			t.used = &u
		}
	}
	return t.used
}

// deviceWarnings are those that the device has had since it was last asked.
func (t *setup) deviceWarnings() (list []string) {
	if w, ok := device.As[device.Warner](t.dev); ok {
		list = w.Warnings()[t.heard:]
		t.heard += len(list)
	}
	return list
}

// warnOnce passes on the warning of validations that tiles are smaller than usual, once.
func (t *training) warnOnce(err error) {
	if !t.warned {
		t.warned = true
		t.Observer.Warning(err)
	}
}

func (t *training) onWarning(err error) error {
	t.Observer.Warning(err)
	return nil
}

func (t *training) onValidation(i train.ValidationInfo) error {
	t.Observer.Validation(i)
	err := t.logs.validation(i)
	t.tracked()
	return err
}
