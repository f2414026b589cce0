package training

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/mlflow"
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
func (Unobserved) Started(Plan) {}

func (Unobserved) Step(train.StepInfo) {}

func (Unobserved) Validating(ValidationPhase, int, int) {}

func (Unobserved) Validation(train.ValidationInfo) {}

func (Unobserved) Warning(error) {}

// validateAverage validates the averaged weights.
func (t *training) validateAverage(ctx context.Context) (m eval.Metrics, err error) {
	err = t.Step.WithAverage(func() error {
		m, err = t.validate(ctx)
		return err
	})
	return m, err
}

func (t *training) validate(ctx context.Context) (eval.Metrics, error) {
	if t.Cfg.Train.Overfit > 0 {
		return t.validateBatches(ctx)
	}
	phase := func(what ValidationPhase) func(done, total int) {
		return func(done, total int) { t.Observer.Validating(what, done, total) }
	}
	s, err := eval.Score(ctx, t.Pool, t.Validation, t.Val, t.Lexicon, eval.EncodeOptions{Batch: t.Cfg.Train.Batch,
		Progress: phase(Encoding), Pairs: phase(Scoring), Warn: t.warnOnce})
	if err != nil {
		return eval.Metrics{}, err
	}
	m, err := eval.Measure(t.Pool, s, t.Val.CaptionsPerImage())
	m.Protocol = "dev"
	return m, err
}

func (t *training) onStep(i train.StepInfo) error {
	i.Usage = t.gauge.usage(t.Device, t.Now())
	t.Observer.Step(i)
	if why := t.Step.CallByCall(); why != t.callByCall { // the device could not record after all
		t.callByCall = why
		t.Observer.Warning(fmt.Errorf("training steps are started kernel by kernel: %s", why))
	}
	if !t.logs.Due(i.Step) {
		return nil
	}
	for _, warning := range t.gauge.warnings(t.Device) {
		t.Observer.Warning(errors.New(warning))
	}
	b := t.Step.Last()
	similar, err := t.falseNegatives(b)
	if err != nil {
		return err
	}
	err = t.logs.Step(i, b.Negatives(), similar)
	t.tracked()
	return err
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
	err := t.logs.Validation(i)
	t.tracked()
	return err
}

// falseNegatives looks at the batch of the last step; nil without semantic vectors.
func (t *training) falseNegatives(b train.Scored) (*train.FalseNegatives, error) {
	if t.Semantics == nil || len(b.Scores) == 0 {
		return nil, nil
	}
	n, dim := len(b.Captions), t.Semantics.RowLen()
	vectors, images := make([]float32, n*dim), make([]int32, n)
	for i, c := range b.Captions {
		if err := t.Semantics.ReadRow(vectors[i*dim:(i+1)*dim], int(c)); err != nil {
			return nil, err
		}
		images[i] = int32(t.Train.ImageOf(int(c)))
	}
	f := b.FalseNegatives(images, vectors, dim, t.Cfg.Loss.LSEH.Similarity == "cosine")
	return &f, nil
}

// gauge looks at what a device tells of itself.
type gauge struct {
	heard  int           // warnings that were passed on
	looked time.Time     // when its use was looked at last
	used   *device.Usage // what it was then
}

// usage looks at a device once a second.
func (g *gauge) usage(d device.Device, now time.Time) *device.Usage {
	tells, ok := device.As[device.Gauge](d)
	if !ok {
		return nil
	}
	if now.Sub(g.looked) >= time.Second {
		g.looked, g.used = now, nil
		if u, ok := tells.Usage(); ok {
			g.used = &u
		}
	}
	return g.used
}

// warnings are those that a device has had since it was last asked.
func (g *gauge) warnings(d device.Device) (list []string) {
	if w, ok := device.As[device.Warner](d); ok {
		list = w.Warnings()[g.heard:]
		g.heard += len(list)
	}
	return list
}

// tracked tells the tracker of a new record, and the person of a server that does not answer.
func (t *training) tracked() {
	if t.tracker == nil {
		return
	}
	t.tracker.Wake()
	if err := t.tracker.Unanswered(); err != nil && !t.untracked {
		t.untracked = true
		t.Observer.Warning(err)
	}
}

// endTracking sends what is left when a training ended with err.
func (t *training) endTracking(err error) {
	if t.tracker == nil {
		return
	}
	status := mlflow.Finished
	switch {
	case errors.Is(err, train.ErrInterrupted):
		status = mlflow.Killed
	case err != nil:
		status = mlflow.Failed
	}
	if err := t.tracker.End(status, t.Now()); err != nil {
		var proxy *mlflow.NoProxyError
		if errors.As(err, &proxy) {
			t.Observer.Warning(fmt.Errorf("MLflow at %s has settings and metrics of the run, but no files: %w",
				t.Tracking.URL, err))
			return
		}
		t.Observer.Warning(fmt.Errorf("MLflow at %s has not all of the run: %w; send the rest with vsetrain track %s "+
			"--mlflow %s", t.Tracking.URL, err, t.RunDir, t.Tracking.URL))
	}
}
