package view

import (
	"vsetrain/internal/apps/report"
	"vsetrain/train"
)

// State is the state of a run.
type State string

// States of a run. An interrupted run was stopped by Ctrl-C, was killed, or failed; its files do not tell which.
const (
	Running     State = "running"
	Finished    State = "finished"
	Interrupted State = "interrupted"
	Unreadable  State = "unreadable"
)

// progress returns how much of its planned epochs or steps a run has done, from 0 to 1.
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
