package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/run/config"
)

func newCmdSweep(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:   "sweep",
		Short: "Search settings: grids, random search, TPE, successive halving",
		Long: `Train the settings of a sweep file and compare them: plan shows the trials, run
trains them here, on Slurm or on Kubernetes, status shows how far they are,
collect makes tables, plots and the best configuration.

Every trial is a run directory in DIR/trials, named after its settings. There is no server: a killed sweep continues
when it is started again, and several machines with a shared file system can work on the same sweep.`,
		Example: `  vsetrain sweep plan --config demo
  vsetrain sweep run --config demo`,
	}, newCmdSweepPlan(a), newCmdSweepRun(a), newCmdSweepStatus(a), newCmdSweepCollect(a), newCmdSweepWorker(a),
		newCmdSweepTrial(a))
}

// sweepFlags are the flags of every command about a sweep.
type sweepFlags struct {
	File string `flag:"config,c" arg:"FILE" usage:"sweep FILE (YAML), or a built-in sweep such as demo"`
	Dir  string `flag:"dir" arg:"DIR" usage:"folder of the sweep" empty:"dir in the file, or sweeps/NAME after the file"`
}

// extend adds shell completion, and takes the file from an argument too.
func (f *sweepFlags) extend(c *cobra.Command) {
	must(c.MarkFlagFilename("config", "yaml", "yml"))
	c.ValidArgsFunction = cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt)
	fileArg(c, &f.File, "FILE")
}

// load reads the sweep and checks its trials.
func (f *sweepFlags) load() (*sweep.Plan, *sweep.Store, error) {
	if f.File == "" {
		return nil, nil, usagef("which sweep? --config names a file, or one of %s",
			strings.Join(config.SweepNames(), ", "))
	}
	d, err := sweep.Load(f.File)
	if err != nil {
		return nil, nil, err
	}
	if f.Dir != "" {
		d.Dir = f.Dir
	}
	p, err := sweep.NewPlan(d)
	if err != nil {
		return nil, nil, err
	}
	return p, &sweep.Store{Dir: d.Dir, Stale: time.Minute}, nil
}

// codedError is an error with an exit code.
type codedError struct {
	error
	code int
}

func (e *codedError) Unwrap() error { return e.error }

// trialName names a trial in a message.
func trialName(t sweep.Trial) string { return fmt.Sprintf("%d %s seed=%d", t.Number, t.ID, t.Seed) }
