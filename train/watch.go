package train

import (
	"errors"
	"fmt"
	"math"
)

// CollapseError ends a run whose scores have all become alike: every hinge equals the margin, so the loss is
// 2·B·margin and the gradients of all pairs cancel.
type CollapseError struct {
	Steps  int
	Step   int64
	Loss   float64
	Margin float64
	Batch  int
}

func (e *CollapseError) Error() string {
	return fmt.Sprintf("training has collapsed: for the last %d steps (up to step %d) the loss was within 1 %% of 2 x batch x margin = %.4g, "+
		"which means that all images and captions have the same embedding; lower optim.lr, or start with loss.warmup_epochs: 1 "+
		"(train.collapse_steps: 0 turns this check off)", e.Steps, e.Step, 2*float64(e.Batch)*e.Margin)
}

// watch counts the steps in a row that look collapsed. The check is for LMH and LSEH, whose loss is a maximum per row and
// column; for LSEH the margin is that of an unrelated pair give or take λ, so 1 % is taken of the constant α.
func (l *Loop) watch(r StepResult, batch int) error {
	p := &l.Position
	limit := 2 * float64(batch) * l.Margin
	if l.Options.CollapseSteps == 0 || limit == 0 {
		return nil
	}
	if math.Abs(r.Loss-limit) > 0.01*limit {
		p.Collapsed = 0
		return nil
	}
	p.Collapsed++
	if p.Collapsed < l.Options.CollapseSteps {
		return nil
	}
	return &CollapseError{Steps: p.Collapsed, Step: p.Step, Loss: r.Loss, Margin: l.Margin, Batch: batch}
}

// explain turns a numeric failure of a step into what a person can do about it.
func (l *Loop) explain(err error) error {
	var nf *NotFinite
	if !errors.As(err, &nf) {
		return fmt.Errorf("step %d: %w", l.Position.Step+1, err)
	}
	return fmt.Errorf("step %d (epoch %d, iteration %d): %w; the parameters were not updated and the last checkpoint stands. "+
		"Lower optim.lr, keep optim.clip above 0, and look for bad features with 'vsetrain data check'",
		l.Position.Step+1, l.Position.Epoch, l.Position.Iter, err)
}
