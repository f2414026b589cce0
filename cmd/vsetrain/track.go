package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/internal/run/mlflow"
	"vsetrain/internal/run/tracking"
)

type trackOptions struct {
	Runs           []string `args:"RUN" missing:"which run? name a run directory, or a folder that holds some"`
	mlflow.Options `flags:"mlflow experiment"`
	Weights        bool `flag:"weights" usage:"send the best checkpoint too"`
}

func newCmdTrack(a *app) *cobra.Command {
	return a.command(&trackOptions{}, &cobra.Command{
		Use:   "track RUN...",
		Short: "Send runs to an MLflow server",
		Long: `Send settings, metrics and small files of runs to an MLflow tracking server:
runs trained without --mlflow, and what a server missed while it was away. What
it has is not sent again.`,
		Example: `  vsetrain track runs/demo --mlflow http://127.0.0.1:5000
  vsetrain track runs --mlflow http://127.0.0.1:5000 --experiment flickr8k
  vsetrain track runs/demo --weights`,
	})
}

func (o *trackOptions) run(ctx context.Context, a *app) error {
	ctx, stop := interruptible(ctx)
	defer stop()
	runs, err := openRuns(a, o.Runs)
	if err != nil {
		return err
	}
	for _, r := range runs {
		of := mlflow.Options{MLflow: cmp.Or(o.MLflow, r.Config.Track.MLflow),
			Experiment: cmp.Or(o.Experiment, r.Config.Track.Experiment)}
		if err := of.Validate(); err != nil {
			return usagef("--%v", err)
		}
		target := a.tracking(of)
		if target.URL == "" {
			return usagef("which server? name it with --mlflow URL, or with MLFLOW_TRACKING_URI")
		}
		status := mlflow.Killed
		if r.Finished() {
			status = mlflow.Finished
		}
		sent, err := tracking.Send(ctx,
			tracking.Request{Dir: r.Dir, Target: target, Status: status, Weights: o.Weights})
		if err != nil {
			return err
		}
		if sent.NoFiles != nil {
			a.warn(sent.NoFiles)
		}
		a.Printf("%s is run %s of experiment %q at %s, up to step %d\n", r.Dir, sent.Run, target.Experiment, target.URL,
			sent.Step)
	}
	return nil
}

// tracking returns the MLflow server of a configuration; its URL is empty if there is none. The variables of MLflow's
// own library give the server, if the configuration does not, and the credentials.
func (a *app) tracking(o mlflow.Options) mlflow.Target {
	t := mlflow.Target{URL: o.MLflow, Experiment: o.Experiment, Token: a.getenv("MLFLOW_TRACKING_TOKEN"),
		User: a.getenv("MLFLOW_TRACKING_USERNAME"), Password: a.getenv("MLFLOW_TRACKING_PASSWORD")}
	if t.URL == "" {
		t.URL = a.getenv("MLFLOW_TRACKING_URI")
		if err := (&mlflow.Options{MLflow: t.URL}).Validate(); err != nil {
			a.Warnf("MLFLOW_TRACKING_URI is not used: %v", err)
			t.URL = ""
		}
	}
	if t.URL == mlflow.Off {
		t.URL = ""
	}
	t.URL = strings.TrimRight(t.URL, "/")
	t.Experiment = cmp.Or(t.Experiment, a.getenv("MLFLOW_EXPERIMENT_NAME"), "vsetrain")
	return t
}
