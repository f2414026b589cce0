package train

import (
	"errors"
	"fmt"
	"math"
)

// CollapseError means that all images and captions of a run have nearly the same embedding. The highest negative score
// of every row and column equals the score of the match, so the loss of LMH stays at 2·B·margin and the gradients of
// all pairs cancel.
type CollapseError struct {
	Steps  int
	Step   int64
	Loss   float64
	Margin float64
	Batch  int
}

func (e *CollapseError) Error() string {
	return fmt.Sprintf("training looks collapsed: for the last %d steps (up to step %d, loss %.4g) the "+
		"highest-scoring negatives scored like the matches, which holds the loss at 2 x batch x margin = %.4g; all "+
		"images and captions have nearly the same embedding. Recalls may still rise in this state; if the validation "+
		"does not improve, lower optim.lr or start with loss.warmup_epochs: 1 (train.on_collapse: stop ends such "+
		"runs, train.collapse_steps: 0 turns this check off)",
		e.Steps, e.Step, e.Loss, 2*float64(e.Batch)*e.Margin)
}

// watch counts the steps in a row that look collapsed: the loss of LMH on their scores is within 1 % of 2·B·margin. It
// compares scores, because other losses have other values in the same collapse.
func (l *Loop) watch(r StepResult, batch int) error {
	p := &l.Position
	limit := 2 * float64(batch) * l.Margin
	if l.Options.CollapseSteps == 0 || limit == 0 || batch < 2 {
		return nil
	}
	if math.Abs(r.Gap) > 0.01*limit {
		p.Collapsed = 0
		return nil
	}
	p.Collapsed++
	e := &CollapseError{Steps: p.Collapsed, Step: p.Step, Loss: r.Loss, Margin: l.Margin, Batch: batch}
	switch {
	case p.Collapsed < l.Options.CollapseSteps:
		return nil
	case l.Options.OnCollapse == Stop:
		return e
	case p.Collapsed == l.Options.CollapseSteps && l.Hooks.Warn != nil:
		return l.Hooks.Warn(e)
	}
	return nil
}

// explain adds the remedy to a numeric failure of the step after a position.
func (l *Loop) explain(err error, p Position) error {
	var nf *NotFiniteError
	if !errors.As(err, &nf) {
		return fmt.Errorf("step %d: %w", p.Step+1, err)
	}
	more := ""
	if p.Step == 0 {
		more = "; a loss needs a finite gradient where all scores are equal, as they nearly are at first"
	}
	return fmt.Errorf("step %d (epoch %d, iteration %d): %w; the parameters were not updated. "+
		"Lower optim.lr, keep optim.clip above 0, and look for bad features with 'vsetrain data check'%s",
		p.Step+1, p.Epoch, p.Iter, err, more)
}

// driftSteps is the number of steps in a block of drift.
const driftSteps = 50

// drift compares the mean loss per pair of blocks of driftSteps steps.
type drift struct {
	sum   bool // the warm-up form of the loss, which has another scale
	steps int
	total float64
	first float64 // mean of the first block, 0 before its end
	said  bool
}

// follow warns once when the mean loss of a block exceeds 1.5 times the mean loss of the first block since the start of
// the session or the end of warm-up. The run then diverges, which the recalls show only later.
func (l *Loop) follow(r StepResult, batch int, sum bool) error {
	d := &l.drift
	if d.sum != sum {
		*d = drift{sum: sum, said: d.said}
	}
	d.total += r.Loss / float64(batch)
	if d.steps++; d.steps < driftSteps {
		return nil
	}
	mean := d.total / driftSteps
	d.steps, d.total = 0, 0
	if d.first == 0 {
		d.first = mean
		return nil
	}
	if d.said || mean <= 1.5*d.first || l.Hooks.Warn == nil {
		return nil
	}
	d.said = true
	return l.Hooks.Warn(fmt.Errorf("the loss grows: %.4g per pair in the last %d steps (up to step %d), "+
		"%.4g in the first %d; training seems to diverge: lower optim.lr, or keep optim.clip above 0",
		mean, driftSteps, l.Position.Step, d.first, driftSteps))
}
