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

// Steps that are started before the ones before them are finished do the same steps, reports, validations and saves in
// the same order as others, each validation after all steps before it, and interruptions repeat nothing.
func TestStepsOnTheirWay(t *testing.T) {
	plain := &script{scores: []float64{10, 30, 20, 30, 40, 5}}
	try.Do(t, plain.loop().Run(t.Context()))
	for _, due := range []func(int64) bool{nil, func(int64) bool { return false },
		func(s int64) bool { return s%3 == 0 }} {
		for _, every := range []int64{1, 3, 4, 100} {
			f := &deep{script: &script{scores: plain.scores}}
			l := f.loop()
			for {
				l.Step, l.Hooks.Due, l.Options.ValStep = f, due, 2
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
				l = f.resume(f.saved[len(f.saved)-1])
			}
			what := fmt.Sprintf("interrupted every %d steps", every)
			same(t, what, f.only("run"), plain.only("run"))
			same(t, what, f.only("step", "val"), plain.only("step", "val"))
			if want := map[bool]int{true: 1, false: 2}[due == nil]; f.most != want {
				t.Errorf("%s: %d steps on their way at once, want %d", what, f.most, want)
			}
		}
	}
}
