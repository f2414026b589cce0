package training

import (
	"context"
	"errors"
	"fmt"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/run/pretrained"
	"vsetrain/train"
)

// validateAverage validates the averaged weights.
func (t *training) validateAverage(ctx context.Context) (m eval.Metrics, err error) {
	err = t.Step.WithAverage(func() error {
		m, err = t.validate(ctx)
		return err
	})
	return m, err
}

// validate measures the network. The ranks of a job divide the work, and rank 0 has the result.
func (t *training) validate(ctx context.Context) (eval.Metrics, error) {
	if t.Cfg.Train.Overfit > 0 {
		if !t.first() {
			return eval.Metrics{}, nil
		}
		return t.validateBatches(ctx)
	}
	phase := func(what ValidationPhase) func(done, total int) {
		return func(done, total int) { t.Observer.Validating(what, done, total) }
	}
	o := eval.EncodeOptions{Batch: t.Cfg.Train.EncodeBatch(), Progress: phase(Encoding), Pairs: phase(Scoring),
		Warn: t.warnOnce, ProcessorTime: t.ProcessorTime}
	if t.Cfg.Train.ValPrecision == train.ValAuto {
		first, err := (&pretrained.Network{Model: t.Model}).BF16First(t.Cfg.Device, t.BLAS)
		if err != nil {
			t.warnOnce(fmt.Errorf("validations score all pairs in fp32: %w", err))
		} else if first != nil {
			defer first.Close()
			o.First = first.Runner.Pairs
		}
	}
	s, err := eval.Score(ctx, t.Pool, t.Validation, t.Val, t.Tokenizer, o)
	if err != nil || !t.first() {
		return eval.Metrics{}, err
	}
	m, err := eval.Measure(t.Pool, s, t.Val.Groups())
	m.Protocol = "dev"
	return m, err
}

func (t *training) onStep(i train.StepInfo) error {
	i.Usage = t.gauge.usage(t.Device, t.Now(), i.Duration)
	t.Observer.Step(i)
	t.makeRoom()
	_, ranks := device.RankOf(t.Device)
	if starved := t.attention.step(i.Duration-i.DataWait, ranks > 1); starved != nil {
		t.Observer.Warning(starved)
	}
	if why := t.Step.CallByCall(); why != t.callByCall { // the device could not record after all
		t.callByCall = why
		t.Observer.Warning(fmt.Errorf("training steps are started kernel by kernel: %s", why))
	}
	due := t.logs.Due(i.Step)
	if err := t.background.settle(due && t.background.first); err != nil || !due {
		return err
	}
	for _, warning := range t.gauge.warnings(t.Device) {
		t.Observer.Warning(errors.New(warning))
	}
	b := t.Step.Last()
	similar, err := t.falseNegatives(b)
	if err != nil {
		return err
	}
	err = t.logs.Step(i, b.Negatives(), similar, train.Learned(t.Step))
	t.tracked()
	return err
}

// warnOnce passes on the first warning of validations about smaller tiles.
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
	t.attention.last = 0
	t.Observer.Validation(i)
	if err := t.background.settle(true); err != nil {
		return err
	}
	err := t.logs.Validation(i)
	t.tracked()
	return err
}

// falseNegatives examines the batch of the last step; it returns nil without semantic vectors.
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
