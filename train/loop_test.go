package train

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/eval"
	"vsetrain/lab/try"
)

func TestLoopCadence(t *testing.T) {
	s := &script{scores: []float64{10, 30, 20, 30, 40, 5}}
	l := s.loop()
	l.Warmup = 1
	try.Do(t, l.Run(t.Context()))
	same(t, "events", s.events, []string{
		"run 0.0 lr 1 sum", "step 1", "run 0.1 lr 1 sum", "step 2", "val 2 score 10 best true", "save 2 best true",
		"run 0.2 lr 1 sum", "step 3", "run 0.3 lr 1 sum", "step 4", "val 4 score 30 best true", "save 4 best true",
		"run 0.4 lr 1 sum", "step 5", "val 5 score 20 best false", "save 5 best false", // the end of the epoch
		"run 1.0 lr 0.5", "step 6", "val 6 score 30 best false", "save 6 best false", // equal is not better
		"run 1.1 lr 0.5", "step 7", "run 1.2 lr 0.5", "step 8", "val 8 score 40 best true", "save 8 best true",
		"run 1.3 lr 0.5", "step 9", "run 1.4 lr 0.5", "step 10", "val 10 score 5 best false", "save 10 best false",
	})
	want := Position{Step: 10, Epoch: 2, Best: 40, BestStep: 8, Stale: 1}
	if l.Position != want {
		t.Errorf("position %+v, want %+v", l.Position, want)
	}
	if last := s.saved[len(s.saved)-1]; last != want {
		t.Errorf("saved %+v", last)
	}
	if err := l.Run(t.Context()); err != nil || s.validations != 6 {
		t.Errorf("a finished run goes on: %v, %d validations", err, s.validations)
	}
}

// Validations follow val_step and the ends of epochs, once where they meet, and end a run that stops early or has done
// max_steps.
func TestWhenTheLoopValidates(t *testing.T) {
	for _, c := range []struct {
		name   string
		scores []float64
		change func(*Options)
		want   []string
	}{
		{"only at the ends of epochs", nil, func(o *Options) { o.ValStep = 0 },
			[]string{"val 5 score 50 best true", "val 10 score 50 best false"}},
		{"val_step meets the end", nil, func(o *Options) { o.ValStep = 5 },
			[]string{"val 5 score 50 best true", "val 10 score 50 best false"}},
		{"early_stop", []float64{10, 9, 11, 11, 8}, func(o *Options) { o.EarlyStop, o.Epochs = 2, 100 },
			[]string{"val 2 score 10 best true", "val 4 score 9 best false", "val 5 score 11 best true",
				"val 6 score 11 best false", "val 8 score 8 best false"}},
		{"max_steps", nil, func(o *Options) { o.MaxSteps = 3 },
			[]string{"val 2 score 50 best true", "val 3 score 50 best false"}},
	} {
		s := &script{scores: c.scores}
		l := s.loop()
		c.change(&l.Options)
		try.Do(t, l.Run(t.Context()))
		same(t, c.name, s.only("val"), c.want)
		if len(s.saved) != len(c.want) || s.saved[len(s.saved)-1] != l.Position {
			t.Errorf("%s: saved %+v, the loop ends at %+v", c.name, s.saved, l.Position)
		}
	}
}

// A validation that comes fewer than val_gap steps after the last one is left out, except at the end, also where the
// run is interrupted after every step; Planned counts the others.
func TestValidationsKeepTheirDistance(t *testing.T) {
	for gap, want := range [][]int64{{2, 4, 5, 6, 8, 10}, {2, 4, 5, 6, 8, 10}, {2, 4, 6, 8, 10}, {4, 8, 10}, {4, 8, 10},
		{5, 10}, {6, 10}, {8, 10}} {
		s := &script{}
		l := s.loop()
		l.Options.ValGap = gap
		var got []int64
		for {
			ctx, cancel := context.WithCancel(t.Context())
			s.onStep = func(StepInfo) error { cancel(); return nil }
			s.onResult = func(v ValidationInfo) error { got = append(got, v.Step); return nil }
			err := l.Run(ctx)
			if cancel(); err == nil {
				break
			}
			options := l.Options
			l = s.resume(s.saved[len(s.saved)-1])
			l.Options = options
		}
		if _, n := l.Options.Planned(l.Batches); !slices.Equal(got, want) || n != int64(len(want)) {
			t.Errorf("gap %d: validations after steps %v, %d planned, want %v", gap, got, n, want)
		}
	}
}

func TestBestByFourRecalls(t *testing.T) {
	s := &script{scores: []float64{30}}
	l := s.loop()
	l.Options.Best = "4recalls"
	inner := l.Validate
	l.Validate = func(ctx context.Context) (m eval.Metrics, err error) {
		m, err = inner(ctx)
		m.I2T.R10, m.T2I.R10, m.MRecall, m.I2T.R1 = 100, 100, 99, 20
		return m, err
	}
	l.Options.MaxSteps = 1
	try.Do(t, l.Run(t.Context()))
	if want := (20 + 30 + 30 + 30) / 4.0; l.Position.Best != want {
		t.Errorf("best %v, want %v", l.Position.Best, want)
	}
}

// A run that is interrupted after a step, or inside the validation after it, saves that the validation is due, and
// begins with it after resuming.
func TestInterruptedBeforeAValidation(t *testing.T) {
	for _, inside := range []bool{false, true} {
		s := &script{}
		l := s.loop()
		ctx, cancel := context.WithCancel(t.Context())
		if inside {
			s.onValidate = func() error { cancel(); return ctx.Err() }
		} else {
			s.onStep = func(i StepInfo) error {
				if i.Step == 2 {
					cancel()
				}
				return nil
			}
		}
		if err := l.Run(ctx); !errors.Is(err, ErrInterrupted) {
			t.Fatal(err)
		}
		if want := (Position{Step: 2, Iter: 2, Pending: true}); len(s.saved) != 1 || s.saved[0] != want {
			t.Fatalf("saved %+v, want %+v", s.saved, want)
		}
		s.onValidate, s.onStep, s.events = nil, nil, nil
		try.Do(t, s.resume(s.saved[0]).Run(t.Context()))
		same(t, "first events after resuming", s.events[:2], []string{"val 2 score 50 best true", "save 2 best true"})
	}
}

func TestErrorsEndTheRun(t *testing.T) {
	boom := errors.New("boom")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, c := range []struct {
		name, message string
		prepare       func(s *script, l *Loop)
	}{
		{"step hook", "boom", func(s *script, _ *Loop) { s.onStep = func(StepInfo) error { return boom } }},
		{"validation", "validation after step 2: boom", func(s *script, _ *Loop) {
			s.onValidate = func() error { return boom }
		}},
		{"validation hook", "boom", func(s *script, _ *Loop) {
			s.onResult = func(ValidationInfo) error { return boom }
		}},
		{"save", "boom", func(_ *script, l *Loop) {
			l.Hooks.Save = func(Position, *ValidationInfo) error { return boom }
		}},
		{"step", "step 1: boom", func(s *script, _ *Loop) { s.fail = boom }},
		{"hook while interrupted", "boom", func(s *script, _ *Loop) { // or the best weights would be lost silently
			s.onResult = func(ValidationInfo) error { cancel(); return boom }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &script{}
			l := s.loop()
			c.prepare(s, l)
			if err := l.Run(ctx); !errors.Is(err, boom) || err.Error() != c.message {
				t.Errorf("got %v, want %q", err, c.message)
			}
			if len(s.saved) > 0 {
				t.Errorf("saved %+v", s.saved)
			}
		})
	}
}

func TestLoaderAtAnotherPosition(t *testing.T) {
	s := &script{}
	l := s.loop()
	s.epoch, s.iter = 1, 3
	err := l.Run(t.Context())
	if err == nil || err.Error() != "step 1: the loader is at epoch 1 iteration 3, the run at 0, 0" {
		t.Errorf("got %v", err)
	}
}

func TestStepInfo(t *testing.T) {
	s := &script{}
	l := s.loop()
	var got []StepInfo
	s.onStep = func(i StepInfo) error { got = append(got, i); return nil }
	try.Do(t, l.Run(t.Context()))
	i := got[5]
	if i.Step != 6 || i.Epoch != 1 || i.Iter != 1 || i.EpochPosition != 1.2 || i.Batch != 4 ||
		i.DataWait != time.Millisecond ||
		i.Duration != time.Second || i.StepResult.LearningRate != 0.5 || !i.Pending {
		t.Errorf("%+v", i)
	}
}

func TestCollapse(t *testing.T) {
	limit := 2 * 4 * 0.2
	for _, c := range []struct {
		gap  float64
		stop bool
	}{{0, true}, {0.0099 * limit, true}, {-0.0099 * limit, true}, {0.0101 * limit, false}, {-0.0101 * limit, false}} {
		s := &script{gap: c.gap}
		l := s.loop()
		l.Options.CollapseSteps, l.Options.OnCollapse = 3, Stop
		err := l.Run(t.Context())
		var ce *CollapseError
		if errors.As(err, &ce) != c.stop {
			t.Errorf("gap %g: %v", c.gap, err)
		}
		if c.stop && (ce.Step != 3 || ce.Steps != 3 || !strings.Contains(err.Error(), "2 x batch x margin = 1.6") ||
			!strings.Contains(err.Error(), "lower optim.lr")) {
			t.Errorf("%+v: %v", ce, err)
		}
	}
}

// By default a collapse is explained once and training continues.
func TestCollapseWarns(t *testing.T) {
	s := &script{}
	l := s.loop()
	l.Options.CollapseSteps, l.Options.OnCollapse = 2, "warn"
	var warned []error
	l.Hooks.Warn = func(err error) error { warned = append(warned, err); return nil }
	try.Do(t, l.Run(t.Context()))
	var ce *CollapseError
	if len(warned) != 1 || !errors.As(warned[0], &ce) || ce.Step != 2 {
		t.Errorf("warnings %v, want one after step 2", warned)
	}
}

// A run that is resumed goes on where it was in every respect: each field of its position is saved, and what counts
// towards an early stop counts on.
func TestPositionIsSavedWhole(t *testing.T) {
	saved := func(p Position) Position {
		b, err := json.Marshal(State{Position: p})
		var s State
		if err == nil {
			err = json.Unmarshal(b, &s)
		}
		try.Do(t, err)
		return s.Position
	}
	all := Position{Step: 9, Epoch: 1, Iter: 4, Best: 50, BestStep: 2, Stale: 3, Collapsed: 4, Pending: true,
		Validated: 8, BestAverage: 40, BestAverageStep: 6}
	for i, v := 0, reflect.ValueOf(all); i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("field %s is not tried", v.Type().Field(i).Name)
		}
	}
	if got := saved(all); got != all {
		t.Errorf("position %+v is read back as %+v", all, got)
	}
	s := &script{scores: []float64{50, 40, 30, 20}}
	l := s.loop()
	l.Options.EarlyStop = 3
	ctx, cancel := context.WithCancel(t.Context())
	s.onResult = func(i ValidationInfo) error {
		if i.Stale == 1 {
			cancel()
		}
		return nil
	}
	if err := l.Run(ctx); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	l = s.resume(saved(s.saved[len(s.saved)-1]))
	l.Options.EarlyStop = 3
	if err := l.Run(t.Context()); err != nil || l.Position.Stale != 3 || s.validations != 4 {
		t.Errorf("%v after %d validations, %d stale; want 4 and 3", err, s.validations, l.Position.Stale)
	}
}

// Only steps in a row count, also across an interruption.
func TestCollapseCountsStepsInARow(t *testing.T) {
	s := &script{}
	l := s.loop()
	l.Options.CollapseSteps = 3
	s.onStep = func(i StepInfo) error {
		s.gap = 0
		if i.Step%3 == 2 { // every third step is healthy
			s.gap = 1
		}
		return nil
	}
	if err := l.Run(t.Context()); err != nil {
		t.Errorf("healthy run stopped: %v", err)
	}
	s = &script{}
	l = s.resume(Position{Step: 7, Epoch: 1, Iter: 2, Collapsed: 2})
	l.Options.CollapseSteps, l.Options.OnCollapse = 3, Stop
	var ce *CollapseError
	if err := l.Run(t.Context()); !errors.As(err, &ce) || ce.Step != 8 {
		t.Errorf("got %v", err)
	}
}

// A loss that grows to more than one and a half of its beginning is said once; its smaller form after warm-up begins
// anew.
func TestGrowingLossWarns(t *testing.T) {
	for _, c := range []struct {
		name   string
		loss   func(step int64) float64
		warmup int
		at     int64 // step of the warning, 0 for none
	}{
		{"falls", func(n int64) float64 { return 100 - float64(n)/10 }, 0, 0},
		{"rises a little", func(n int64) float64 { return 100 + float64(n)/10 }, 0, 0},
		{"rises", func(n int64) float64 { return 100 + float64(n) }, 0, 150},
		{"warm-up ends", func(n int64) float64 { return map[bool]float64{true: 10, false: 100}[n <= 250] }, 1, 0},
	} {
		s := &script{gap: 1}
		l := s.loop()
		s.batches, l.Batches, l.Options.Epochs, l.Options.ValStep, l.Options.MaxSteps, l.Warmup = 250, 250, 2, 0, 500,
			c.warmup
		var warned []int64
		l.Hooks.Warn = func(err error) error {
			if !strings.Contains(err.Error(), "lower optim.lr") {
				t.Error(err)
			}
			warned = append(warned, l.Position.Step)
			return nil
		}
		s.loss = c.loss
		try.Do(t, l.Run(t.Context()))
		if c.at == 0 && len(warned) > 0 || c.at > 0 && !slices.Equal(warned, []int64{c.at}) {
			t.Errorf("%s: warnings at steps %v, want %d", c.name, warned, c.at)
		}
	}
}

// A position that cannot be reached is an error; the first one, that of an epoch's last batch and one with scores are
// none.
func TestPositionsThatCannotBe(t *testing.T) {
	good := Position{Step: 7, Epoch: 1, Iter: 2, Best: 30, BestStep: 5, BestAverage: 20, BestAverageStep: 5}
	for _, p := range []Position{{}, {Step: 4, Iter: 4}, good} {
		if err := p.Check(5); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	}
	for what, change := range map[string]func(*Position){
		"an iteration behind the epoch": func(p *Position) { p.Step, p.Epoch, p.Iter = 5, 0, 5 },
		"another step":                  func(p *Position) { p.Step++ },
		"a best score above 100":        func(p *Position) { p.Best = 101 },
		"a best step to come":           func(p *Position) { p.BestStep = 8 },
		"a score of no step":            func(p *Position) { p.BestStep = 0 },
		"a step without score":          func(p *Position) { p.Best = 0 },
		"an average above 100":          func(p *Position) { p.BestAverage = 101 },
		"an average below 0":            func(p *Position) { p.BestAverage = -1 },
		"a step below 0":                func(p *Position) { p.BestAverageStep = -1 },
		"an average to come":            func(p *Position) { p.BestAverageStep = 8 },
		"a validation to come":          func(p *Position) { p.Validated = 8 },
		"stale":                         func(p *Position) { p.Stale = -1 },
		"collapsed":                     func(p *Position) { p.Collapsed = -1 },
	} {
		p := good
		if change(&p); p.Check(5) == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
