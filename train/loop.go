package train

import (
	"context"
	"errors"
	"fmt"
	"time"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
)

// Source delivers the batches of training in order, from the position at which it was opened.
type Source interface {
	Next() (*data.Batch, error)
	Release(*data.Batch)
}

// Position is the position of a run: everything that the next step depends on besides weights and optimiser state. All
// random numbers are functions of the seed and the position.
type Position struct {
	Step      int64   `json:"step"`  // steps done since the start of the run
	Epoch     int     `json:"epoch"` // epoch of the next step, from 0
	Iter      int     `json:"iter"`  // iteration of the next step in its epoch, from 0
	Best      float64 `json:"best"`  // best score so far, 0 before the first validation
	BestStep  int64   `json:"best_step"`
	Stale     int     `json:"stale"`               // validations in a row without a better score
	Collapsed int     `json:"collapsed"`           // collapsed steps in a row, see Loop.watch
	Pending   bool    `json:"pending"`             // a validation is due before the next step
	Validated int64   `json:"validated,omitempty"` // step of the last validation, if Options.ValGap is set

	// The best validation of the averaged weights (OptimOptions.EMA).
	BestAverage     float64 `json:"best_average,omitempty"`
	BestAverageStep int64   `json:"best_average_step,omitempty"`
}

// Stepper does training steps. *Step implements it.
type Stepper interface {
	// Start begins a step on a batch, which may be released when the step is finished. sum selects the warm-up form of
	// the loss.
	Start(b *data.Batch, lr float64, sum bool) error
	// Finish waits for the oldest started step and returns its result.
	Finish() (StepResult, error)
	// Depth is the number of steps that may be started and not finished: 1, or more on an asynchronous device.
	Depth() int
}

// StepInfo is the report of a step for hooks.
type StepInfo struct {
	Position           // after the step
	EpochPosition      float64
	StepResult         StepResult
	Batch              int
	Duration, DataWait time.Duration
	Usage              *device.Usage // of the device, within the last second; nil if it is unknown
}

// ValidationInfo is the report of a validation for hooks.
type ValidationInfo struct {
	Position      // after the validation
	EpochPosition float64
	Metrics       eval.Metrics
	Score         float64 // what decides the best checkpoint
	Better        bool
	Average       *AverageInfo // of the averaged weights; nil if none are kept
	Duration      time.Duration
}

// AverageInfo is the part of a validation that measures the averaged weights.
type AverageInfo struct {
	Metrics eval.Metrics
	Score   float64
	Better  bool // than all earlier averaged weights
}

// Hooks are functions that Loop calls; nil hooks are skipped. An error from a hook ends training.
type Hooks struct {
	Step       func(StepInfo) error
	Validation func(ValidationInfo) error
	// Warn reports a warning while training continues.
	Warn func(error) error
	// Save stores the state of the run after the validation v, or after an interruption if v is nil.
	Save func(p Position, v *ValidationInfo) error
	// Due reports whether the Step hook reads the state of the device after a step, so that the next step must not be
	// started before. A nil hook means after every step.
	Due func(step int64) bool
}

// Loop is Algorithm 1 of the LSEH paper: training on mini-batches with a validation every val_step steps and at the end
// of each epoch, and the best model by M-Recall.
type Loop struct {
	Options Options
	Optim   OptimOptions
	Warmup  int // epochs in which the loss sums over all violations
	Margin  float64
	Step    Stepper
	Source  Source
	Batches int // per epoch
	// Validate scores the model on the validation split. All ranks call it; only rank 0 receives the metrics.
	Validate func(context.Context) (eval.Metrics, error)
	// ValidateAverage scores the averaged weights; nil if none are kept.
	ValidateAverage func(context.Context) (eval.Metrics, error)
	// Ranks are the ranks of the job, nil with one rank. Only rank 0 has metrics and hooks; the others follow its
	// decisions.
	Ranks    *Ranks
	Hooks    Hooks
	Now      func() time.Time
	Position Position // after the last finished step

	started *StepInfo   // a step that is not finished, without its result
	batch   *data.Batch // of that step
	since   time.Time   // when the step was started, or the one before it was finished
	drift   drift
	ended   bool // the ranks agreed to stop
}

// ErrInterrupted is the error of Loop.Run after its context ends. The state was saved and the run can be resumed.
var ErrInterrupted = errors.New("training interrupted; the state is saved, continue with --resume")

// Run trains from Position until all epochs are done, training stops early, or ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	for {
		if l.stops(ctx) {
			if err := l.finish(); err != nil {
				return err
			}
			if err := l.save(nil); err != nil {
				return err
			}
			return ErrInterrupted
		}
		switch {
		case l.Position.Pending:
			if err := l.validate(ctx); err != nil {
				return err
			}
		case l.Options.Finished(&l.Position):
			return nil
		default:
			if err := l.step(); err != nil {
				return err
			}
		}
	}
}

// stops reports whether the run is interrupted. Several ranks agree on it after a step or a validation.
func (l *Loop) stops(ctx context.Context) bool {
	if l.Ranks == nil {
		return ctx.Err() != nil
	}
	l.Ranks.WantStop(ctx.Err() != nil)
	return l.ended
}

// Finished reports whether a run ends at a position.
func (o *Options) Finished(p *Position) bool {
	return p.Epoch >= o.Epochs || o.MaxSteps > 0 && p.Step >= int64(o.MaxSteps) ||
		o.EarlyStop > 0 && p.Stale >= o.EarlyStop
}

// Planned returns the numbers of steps and validations of a run with that many batches per epoch, without early
// stopping.
func (o *Options) Planned(batches int) (steps, validations int64) {
	steps = int64(o.Epochs) * int64(batches)
	if o.MaxSteps > 0 {
		steps = min(steps, int64(o.MaxSteps))
	}
	n, v := int64(batches), int64(o.ValStep)
	if o.ValGap > 1 {
		p := Position{}
		for validations = 1; ; validations++ {
			p.Validated = o.NextValidation(&p, batches)
			if p.Step = p.Validated; p.Step >= steps {
				return steps, validations
			}
			if validations == 1e6 { // extrapolate
				return steps, validations * steps / p.Step
			}
		}
	}
	validations = steps / n
	due := steps%n == 0
	if v > 0 {
		a, b := n, v
		for b > 0 {
			a, b = b, a%b
		}
		validations += steps/v - steps/(n/a*v)
		due = due || steps%v == 0
	}
	if !due { // the last step
		validations++
	}
	return steps, validations
}

// NextValidation returns the step of the first validation after a position, not counting the one at the end of
// training. batches is the number of batches per epoch.
func (o *Options) NextValidation(p *Position, batches int) int64 {
	from := max(p.Step+1, p.Validated+int64(o.ValGap))
	next := func(every int64) int64 { return (from + every - 1) / every * every }
	if o.ValStep > 0 {
		return min(next(int64(batches)), next(int64(o.ValStep)))
	}
	return next(int64(batches))
}

// Validated sets the scores of a validation from its metrics, and updates the position.
func (o *Options) Validated(p *Position, v *ValidationInfo) {
	p.Pending = false
	if o.ValGap > 0 {
		p.Validated = p.Step
	}
	v.Score = o.score(v.Metrics)
	if v.Better = v.Score > p.Best; v.Better {
		p.Best, p.BestStep = v.Score, p.Step
	}
	improved := v.Better
	if a := v.Average; a != nil {
		a.Score = o.score(a.Metrics)
		if a.Better = a.Score > p.BestAverage; a.Better {
			p.BestAverage, p.BestAverageStep = a.Score, p.Step
			improved = true
		}
	}
	if p.Stale++; improved {
		p.Stale = 0
	}
	v.Position = *p
}

// score returns the score that decides the best checkpoint.
func (o *Options) score(m eval.Metrics) float64 {
	if o.Best == "4recalls" {
		return m.VSRNSum() / 4
	}
	return m.MRecall
}

// save stores the state of the run. With several ranks, rank 0 stores it after all have gathered it.
func (l *Loop) save(v *ValidationInfo) error {
	write := func() error {
		if l.Hooks.Save == nil {
			return nil
		}
		return l.Hooks.Save(l.Position, v)
	}
	if l.Ranks == nil {
		return write()
	}
	return l.Ranks.saving(write)
}

// step starts a step on the next batch, finishes the one before it, and decides whether a validation is due.
func (l *Loop) step() error {
	p := l.Position
	if l.started != nil {
		p = l.started.Position
	}
	start := l.Now()
	b, err := l.Source.Next()
	if err != nil {
		return fmt.Errorf("step %d: %w", p.Step+1, err)
	}
	if b.Epoch != p.Epoch || b.Iter != p.Iter {
		return fmt.Errorf("step %d: the loader is at epoch %d iteration %d, the run at %d, %d", p.Step+1, b.Epoch,
			b.Iter, p.Epoch, p.Iter)
	}
	next := StepInfo{Position: p, Batch: b.Pairs(), DataWait: b.Wait}
	err = l.Step.Start(b, l.Optim.LearningRate(p.Step, l.Batches), p.Epoch < l.Warmup)
	if err != nil {
		return l.explain(err, p)
	}
	n := &next.Position
	n.Step++
	if n.Iter++; n.Iter == l.Batches {
		n.Epoch, n.Iter = n.Epoch+1, 0
	}
	n.Pending = n.Step == l.Options.NextValidation(&p, l.Batches) || l.Options.Finished(n)
	if l.started != nil {
		if err := l.finish(); err != nil {
			return err
		}
		start = l.since
	}
	l.started, l.batch, l.since = &next, b, start
	if n.Pending || l.Step.Depth() == 1 || l.Hooks.Due == nil || l.Hooks.Due(n.Step) {
		return l.finish()
	}
	return nil
}

// finish waits for a started step and reports it.
func (l *Loop) finish() error {
	i := l.started
	if i == nil {
		return nil
	}
	l.started = nil
	var err error
	i.StepResult, err = l.Step.Finish()
	l.Source.Release(l.batch)
	if err != nil {
		return l.explain(err, l.Position)
	}
	now := l.Now()
	i.Duration, l.since = now.Sub(l.since), now
	return l.done(*i)
}

// done updates the position after a step and reports the step.
func (l *Loop) done(i StepInfo) error {
	collapsed, warm := l.Position.Collapsed, l.Position.Epoch < l.Warmup
	l.Position, l.ended = i.Position, i.StepResult.Stop
	l.Position.Collapsed = collapsed
	if err := l.watch(i.StepResult, i.Batch); err != nil {
		return err
	}
	if err := l.follow(i.StepResult, i.Batch, warm); err != nil {
		return err
	}
	if l.Hooks.Step == nil {
		return nil
	}
	i.Position, i.EpochPosition = l.Position, l.epochPosition()
	return l.Hooks.Step(i)
}

// epochPosition returns the number of epochs done, as a fraction.
func (l *Loop) epochPosition() float64 { return float64(l.Position.Step) / float64(l.Batches) }

// validate measures the network and saves the state. Several ranks first compare their parameters, divide the work, and
// then set their position to rank 0's. If one fails, all end.
func (l *Loop) validate(ctx context.Context) error {
	if l.Ranks != nil {
		if err := l.Ranks.Compare(); err != nil {
			return fmt.Errorf("step %d: %w", l.Position.Step, err)
		}
	}
	v, err := l.measure(ctx)
	if err != nil {
		return err
	}
	if l.Ranks != nil {
		l.ended = l.Position.Pending || ctx.Err() != nil
		if err := l.Ranks.Agree(&l.ended, &l.Position); err != nil {
			return err
		}
	}
	if l.Position.Pending {
		return nil // Run saves the state, and a resumed run validates first
	}
	return l.save(v)
}

// measure validates. After an interruption the validation is still pending.
func (l *Loop) measure(ctx context.Context) (*ValidationInfo, error) {
	p := &l.Position
	start := l.Now()
	v := &ValidationInfo{EpochPosition: l.epochPosition()}
	var err error
	if v.Metrics, err = l.Validate(ctx); err == nil && l.ValidateAverage != nil {
		v.Average = &AverageInfo{}
		v.Average.Metrics, err = l.ValidateAverage(ctx)
	}
	if errors.Is(err, context.Canceled) || err != nil && ctx.Err() != nil {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("validation after step %d: %w", p.Step, err)
	}
	l.Options.Validated(p, v)
	v.Duration = l.Now().Sub(start)
	if l.Hooks.Validation != nil { // before saving: what a resumed run repeats is cut from the logs
		if err := l.Hooks.Validation(*v); err != nil {
			return nil, err
		}
	}
	return v, nil
}
