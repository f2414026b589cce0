package view

import (
	"vsetrain/internal/apps/report"
	"vsetrain/train"
)

// State is how a run stands.
type State string

// States. A run whose lock is free before it reached its end was stopped by Ctrl-C, killed, or failed; the files do not
// tell which.
const (
	Running     State = "running"
	Finished    State = "finished"
	Interrupted State = "interrupted"
	Unreadable  State = "unreadable"
)

func stateOf(o *train.Options, l *report.Log, held bool) State {
	switch {
	case held:
		return Running
	case l.Finished(o):
		return Finished
	}
	return Interrupted
}

// progress is the share of the work of a run that is done, by its plan of epochs or steps.
func progress(o *train.Options, l *report.Log) float64 {
	var epoch float64
	var step int64
	if n := len(l.Steps); n > 0 {
		epoch, step = l.Steps[n-1].Epoch, l.Steps[n-1].Step
	}
	if n := len(l.Validations); n > 0 && l.Validations[n-1].Step > step {
		epoch, step = l.Validations[n-1].Epoch, l.Validations[n-1].Step
	}
	done := epoch / float64(o.Epochs)
	if o.MaxSteps > 0 {
		done = max(done, float64(step)/float64(o.MaxSteps))
	}
	return min(1, done)
}
