package tracking

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/mlflow"
)

// Request names a run directory to send to a server.
type Request struct {
	Dir    string
	Target mlflow.Target
	// Status is how the run ended.
	Status  mlflow.Status
	Weights bool // send the best checkpoint too
}

// Sent is a run on a server.
type Sent struct {
	Experiment, Run string // ids
	Step            int64  // of the last record
	NoFiles         error  // why files were not sent; nil if they were
}

// Send sends a finished or interrupted run to a server, except for what the server already has. A run that a process is
// training is an error.
func Send(ctx context.Context, r Request) (Sent, error) {
	file, err := inputs.RunConfig(r.Dir)
	if err != nil {
		return Sent{}, fmt.Errorf("%s: not a run directory: no %s in it", r.Dir, runfs.ConfigName)
	}
	if who, held, err := runfs.LockOwner(r.Dir); err != nil {
		return Sent{}, err
	} else if held {
		return Sent{}, fmt.Errorf("%s is being trained by process %d on %s: send it when that has ended, or train "+
			"with --mlflow", r.Dir, who.PID, who.Host)
	}
	cfg, err := config.Load(config.Request{File: file})
	if err != nil {
		return Sent{}, err
	}
	t, err := newTracker(r.Dir, &cfg.Config, r.Target, 0)
	if err != nil {
		return Sent{}, err
	}
	fail := func(err error) (Sent, error) {
		return Sent{}, fmt.Errorf("MLflow at %s: %w", r.Target.URL, err)
	}
	if err := t.sync(ctx); err != nil {
		return fail(err)
	}
	out := Sent{Experiment: t.state.Experiment, Run: t.state.Run.ID, Step: t.state.Step}
	files := trackedFiles
	if r.Weights {
		files = append(slices.Clone(files), runfs.CheckpointsName+"/"+runfs.BestName)
	}
	end := time.Now()
	if st, err := os.Stat(filepath.Join(r.Dir, runfs.MetricsName)); err == nil {
		end = st.ModTime()
	}
	err = t.finish(ctx, r.Status, end, files)
	if _, ok := errors.AsType[*mlflow.NoProxyError](err); ok {
		out.NoFiles, err = err, nil
	}
	if err != nil {
		return fail(err)
	}
	return out, nil
}
