package training

import (
	"errors"
	"fmt"

	"vsetrain/internal/run/mlflow"
	"vsetrain/train"
)

// tracked wakes the tracker for a new record, and warns of a server that does not answer.
func (t *training) tracked() {
	if t.tracker == nil {
		return
	}
	t.tracker.Wake()
	if err := t.tracker.Unanswered(); err != nil && !t.untracked {
		t.untracked = true
		t.Observer.Warning(err)
	}
}

// endTracking sends the remaining records after a training ended with err.
func (t *training) endTracking(err error) {
	if t.tracker == nil {
		return
	}
	status := mlflow.Finished
	switch {
	case errors.Is(err, train.ErrInterrupted):
		status = mlflow.Killed
	case err != nil:
		status = mlflow.Failed
	}
	if err := t.tracker.End(status, t.Now()); err != nil {
		if _, ok := errors.AsType[*mlflow.NoProxyError](err); ok {
			t.Observer.Warning(fmt.Errorf("MLflow at %s has settings and metrics of the run, but no files: %w",
				t.Tracking.URL, err))
			return
		}
		t.Observer.Warning(fmt.Errorf("MLflow at %s does not have the whole run: %w; send the rest with vsetrain "+
			"track %s --mlflow %s", t.Tracking.URL, err, t.RunDir, t.Tracking.URL))
	}
}
