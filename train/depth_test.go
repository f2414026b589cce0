package train

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"vsetrain/data"
	"vsetrain/lab/try"
)

// deep is a script of which two steps may be on their way.
type deep struct {
	*script
	most int // steps that were on their way at once
}

func (f *deep) Depth() int { return 2 }

func (f *deep) Start(b *data.Batch, lr float64, sum bool) error {
	err := f.script.Start(b, lr, sum)
	f.most = max(f.most, len(f.results))
	return err
}

func (f *deep) Finish() (StepResult, error) {
	r, err := f.script.Finish()
	f.events = append(f.events, fmt.Sprintf("finish %d left", len(f.results)))
	return r, err
}

// A collapse is counted over steps in a row, also where the next step is started before the last one is finished.
func TestCollapseOfStepsOnTheirWay(t *testing.T) {
	f := &deep{script: &script{}}
	l := f.loop()
	l.Step, l.Hooks.Due = f, func(int64) bool { return false }
	l.Options.ValStep, l.Options.CollapseSteps, l.Options.OnCollapse = 0, 4, Stop
	var ce *CollapseError
	if err := l.Run(t.Context()); !errors.As(err, &ce) || ce.Step != 4 || f.most != 2 {
		t.Errorf("%v, with %d steps on their way", err, f.most)
	}
}

// A run that is interrupted at any step, and again after resuming, does the same steps, validations and saves in the
// same order, each once: also where a step is started before the last one is finished.
func TestInterruptionsRepeatNothing(t *testing.T) {
	plain := &script{scores: []float64{10, 30, 20, 30, 40, 5}}
	try.Do(t, plain.loop().Run(t.Context()))
	one := func(f *deep) Stepper { return f.script }
	two := func(f *deep) Stepper { return f }
	for _, c := range []struct {
		stepper func(*deep) Stepper
		due     func(int64) bool
		most    int
	}{{one, nil, 0}, {two, nil, 1}, {two, func(int64) bool { return false }, 2},
		{two, func(s int64) bool { return s%3 == 0 }, 2}} {
		for _, every := range []int64{1, 2, 3, 4, 7, 100} {
			f := &deep{script: &script{scores: plain.scores}}
			l := f.loop()
			interruptions := 0
			for {
				l.Step, l.Hooks.Due, l.Options.ValStep = c.stepper(f), c.due, 2
				ctx, cancel := context.WithCancel(t.Context())
				f.onStep = func(i StepInfo) error {
					if i.Step%every == 0 {
						cancel()
					}
					return nil
				}
				err := l.Run(ctx)
				cancel()
				if err == nil {
					break
				}
				if !errors.Is(err, ErrInterrupted) || len(f.results) != 0 {
					t.Fatal(err, f.results)
				}
				interruptions++
				l = f.resume(f.saved[len(f.saved)-1])
			}
			what := fmt.Sprintf("interrupted every %d steps", every)
			same(t, what, f.only("run"), plain.only("run"))
			same(t, what, f.only("step", "val"), plain.only("step", "val"))
			if f.most != c.most || c.most == 0 && interruptions != int(10/every) {
				t.Errorf("%s: %d steps on their way at once, want %d; %d interruptions", what, f.most, c.most,
					interruptions)
			}
		}
	}
}
