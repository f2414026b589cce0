package view

import (
	"vsetrain/internal/report"
	"vsetrain/train"
)

// State is how a run stands.
type State string

// States. A run whose lock is free before it reached its end was stopped by Ctrl-C, killed, or failed; the files do not tell which.
const (
	Running     State = "running"
	Finished    State = "finished"
	Interrupted State = "interrupted"
	Unreadable  State = "unreadable"
)

// stateOf follows the rule by which the training loop ends: epochs, max_steps or early_stop reached, after a last validation.
func stateOf(o *train.Options, m *metrics, held bool) State {
	switch {
	case held:
		return Running
	case len(m.Validations) == 0:
		return Interrupted
	}
	last := m.Validations[len(m.Validations)-1]
	if n := len(m.Steps); n > 0 && m.Steps[n-1].Step > last.Step {
		return Interrupted // the last validation of a finished run follows its last step
	}
	stale := 0
	for i := len(m.Validations) - 1; i >= 0 && !m.Validations[i].Best; i-- {
		stale++
	}
	const rounding = 1e-9 // of an epoch position, a quotient of steps
	if last.Epoch >= float64(o.Epochs)-rounding || o.MaxSteps > 0 && last.Step >= int64(o.MaxSteps) || o.EarlyStop > 0 && stale >= o.EarlyStop {
		return Finished
	}
	return Interrupted
}

// progress is the share of the work of a run that is done, by its plan of epochs or steps.
func progress(o *train.Options, m *metrics) float64 {
	var epoch float64
	var step int64
	if n := len(m.Steps); n > 0 {
		epoch, step = m.Steps[n-1].Epoch, m.Steps[n-1].Step
	}
	if n := len(m.Validations); n > 0 && m.Validations[n-1].Step > step {
		epoch, step = m.Validations[n-1].Epoch, m.Validations[n-1].Step
	}
	done := epoch / float64(o.Epochs)
	if o.MaxSteps > 0 {
		done = max(done, float64(step)/float64(o.MaxSteps))
	}
	return min(1, done)
}

// history returns the validations as report compares them.
func (m *metrics) history() []report.Point {
	out := make([]report.Point, len(m.Validations))
	for i, v := range m.Validations {
		out[i] = report.Point{Epoch: v.Epoch, MRecall: v.MRecall}
	}
	return out
}
