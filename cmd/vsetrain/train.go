package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/probe"
	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/launch"
	"vsetrain/internal/run/training"
	"vsetrain/train"
)

type trainOptions struct {
	configFlags `group:"Configuration" alias:"overfit=train.overfit mlflow=track.mlflow"`
	Run         string   `flag:"run" arg:"DIR" usage:"run DIR" empty:"run.dir in the configuration, or runs/NAME after network and file"`
	Resume      bool     `flag:"resume" not:"auto-resume,dry-run" usage:"continue the run in the run directory"`
	AutoResume  bool     `flag:"auto-resume" usage:"continue the run in the run directory if there is one, else start one; for jobs that restart"`
	DryRun      bool     `flag:"dry-run" not:"seeds" usage:"check everything by a few steps and a validation, and estimate time and disk space"`
	Seeds       []uint64 `flag:"seeds" list:"," once:"yes" usage:"train one run for each seed in LIST, such as 7,8,9"`
	rankFlags   `group:"Processes and GPUs"`
	cpuProfile  `group:"CPU profile"`
}

func newCmdTrain(a *app) *cobra.Command {
	return a.command(&trainOptions{}, &cobra.Command{
		Use:   "train",
		Short: "Train a network",
		Long: `Train the network of a configuration and keep its best weights by M-Recall. The
run directory holds the resolved configuration, the metrics (metrics.jsonl and
TensorBoard events), and the checkpoints last and best.

A validation takes place every train.val_step steps and at the end of each epoch. The table of validations goes to
standard output, progress and warnings to standard error.

Ctrl-C, SIGTERM, SIGUSR1 (which batch systems send before the time of a job is up), SIGHUP (when a terminal closes)
and a closed pipe at the output save the state. --resume continues exactly there or, after a kill, from the last
validation. A second Ctrl-C ends the program without saving.

--gpus and --procs divide each batch among processes; the result is the same as with one. Processes started by
torchrun, srun, mpirun, mpiexec or an Indexed Job of Kubernetes are ranks of one training, too; vsetrain launch
writes such jobs.

The exit code is 0 when the run is complete, 75 when it was interrupted and its state is saved, 130 after a second
Ctrl-C, 2 for a wrong command line or configuration, and 1 for every other failure.`,
		Example: `  vsetrain train --config vsepp/f30k-lseh --set data.dir=data/f30k
  vsetrain train --config demo --set seed=8 --run runs/demo-seed8
  vsetrain train --resume --run runs/demo-seed8
  vsetrain train --config demo --seeds 7,8,9
  vsetrain train --config demo --dry-run
  vsetrain train --config demo --procs 2
  vsetrain train --config vseinf/f30k-lseh-bigru --gpus 8
  vsetrain train --config demo --overfit 4 --run runs/overfit`,
	})
}

func (o *trainOptions) run(ctx context.Context, a *app) error {
	place, err := o.place(a)
	if err != nil {
		return err
	}
	switch alone := place.Ranks == 1; {
	case !alone && (o.DryRun || o.Seeds != nil):
		return usagef("--dry-run and --seeds are for one process; leave them out, or --procs or the launcher")
	case o.Seeds != nil:
		return o.runSeeds(ctx, a)
	case o.DryRun:
		return o.dryRun(ctx, a)
	}
	return o.runOne(ctx, a, place)
}

// configuration returns the configuration and the directory of one run. A run that is resumed has its configuration.
func (o *trainOptions) configuration(a *app) (c *config.Config, dir string, err error) {
	if o.Resume && o.File == "" {
		if o.Run == "" {
			return nil, "", usagef("--resume needs --run DIR, or the --config FILE of the run")
		}
		if o.File, err = inputs.RunConfig(o.Run); err != nil {
			return nil, "", err
		}
	}
	r, err := o.load(a)
	if err != nil {
		return nil, "", err
	}
	return &r.Config, cmp.Or(o.Run, r.RunDir(o.File)), nil
}

// runOne trains one run, alone or as a rank.
func (o *trainOptions) runOne(ctx context.Context, a *app, place launch.Place) error {
	c, dir, err := o.configuration(a)
	if err != nil {
		return err
	}
	if o.AutoResume {
		if o.Resume, err = runfs.Exists(filepath.Join(dir, runfs.ConfigName)); err != nil {
			return err
		}
	}
	s := newTrainSession(a, c)
	ctx, stop := a.saving(ctx, s.abandon)
	defer stop()
	out, err := s.divided(ctx, &o.rankFlags, place, c, dir, o.Resume)
	switch {
	case errors.Is(err, train.ErrInterrupted):
		return &codedError{fmt.Errorf("%w: vsetrain train --resume --run %s", err, dir), exitInterrupted}
	case errors.Is(err, errNotBegun):
		return &codedError{err, exitCtrlC}
	case err != nil:
		return err
	}
	printOutcome(a, c, out.Position, dir)
	a.Printf("next: vsetrain eval %s\n", dir)
	return nil
}

// trainSession trains one run after another.
type trainSession struct {
	app    *app
	member *launch.Member            // nil if this process trains alone
	now    atomic.Pointer[trainView] // the run that trains; nil between runs
}

func newTrainSession(a *app, c *config.Config) *trainSession {
	if c.Run.Lock == runfs.LockOff {
		a.noLocks()
	}
	return &trainSession{app: a}
}

// abandon ends the current run without saving it.
func (s *trainSession) abandon() {
	if v := s.now.Load(); v != nil {
		v.abandon()
	}
}

// train trains one run and shows it.
func (s *trainSession) train(ctx context.Context, c *config.Config, dir string, resume bool) (training.Outcome,
	error) {
	a := s.app
	var world device.Job
	if s.member != nil {
		world = jobOf(s.member)
	}
	w := &trainView{app: a, cfg: c, dir: dir, resident: phases{app: a}}
	w.saved.Store(nowhere)
	s.now.Store(w)
	defer s.now.Store(nil)
	defer w.close()
	return training.Train(ctx, training.Request{World: world, Config: c, RunDir: dir, Resume: resume,
		BLAS: a.getenv("VSETRAIN_BLAS"), Env: session(a.Now()), Now: a.Now, Observer: w, FreeDisk: probe.Free,
		FreeMemory: freeMemory, ProcessorTime: processorTime, Saved: w.saved.Store, Tracking: a.tracking(c.Track),
		Copying: func(done, total int) { w.resident.show("features to the GPU", done, total) }})
}

// printOutcome prints the result of a complete run.
func printOutcome(a *app, c *config.Config, p train.Position, dir string) {
	if p.BestStep == 0 {
		a.Printf("no validation scored above 0; the last weights are in %s\n", filepath.Join(dir, runfs.CheckpointsName,
			runfs.LastName))
		return
	}
	on := "dev"
	if c.Train.Overfit > 0 {
		on = "the batches of training"
	}
	a.Printf("best M-Recall %.2f on %s after step %d; weights in %s\n", p.Best, on, p.BestStep,
		filepath.Join(dir, runfs.CheckpointsName, runfs.BestName))
	if p.BestAverageStep > 0 {
		a.Printf("averaged weights: best M-Recall %.2f after step %d; in %s\n", p.BestAverage, p.BestAverageStep,
			filepath.Join(dir, runfs.CheckpointsName, runfs.AverageName))
	}
}

// trainView shows a training run: a progress bar, and a line for each validation.
type trainView struct {
	*app
	cfg    *config.Config
	dir    string // of the run
	plan   training.Plan
	bar    *ui.Progress
	rate   float64 // captions per second, smoothed
	wait   float64 // share of the time spent waiting for data, smoothed
	loss   float64 // smoothed
	step   int64   // of the last batch
	header bool    // the header of the table was printed
	dry    bool    // show only the plan
	quiet  bool    // do not show the plan either

	resident phases
	saved    atomic.Int64 // step of the last checkpoint; nowhere before the run has a directory
}

const nowhere = -1

// abandon reports what is not saved when the program ends at once, and removes half-written files.
func (v *trainView) abandon() {
	dir := v.dir
	switch n := v.saved.Load(); {
	case n == nowhere:
		v.Errorf("stopped at once; nothing was trained")
		return
	case n == 0:
		v.Errorf("stopped at once: nothing is saved; vsetrain train --resume --run %s starts at step 0", dir)
	default:
		v.Errorf("stopped at once: not saved since step %d; vsetrain train --resume --run %s continues there", n, dir)
	}
	runfs.Clean(dir)
}

// Started implements training.Observer.
func (v *trainView) Started(p training.Plan) {
	v.resident.close()
	if v.quiet {
		return
	}
	v.plan = p
	v.Printf("%s with %s: %d parameters on %s\n", p.Network, p.Loss, p.Parameters, p.Device)
	if w := p.Words; w != nil {
		v.Printf("word vectors of %s: %d of %s found, %d drawn\n", w.File, w.Found, ui.Count(w.Of, "word"),
			w.Of-w.Found)
	}
	if p.Noise != nil {
		v.Printf("noise index: %s\n", p.Noise)
	}
	if p.Choice != "" {
		v.Printf("%s\n", p.Choice)
	}
	if p.Memory != nil {
		v.Printf("%s\n%s\n", p.Memory, p.Memory.Steps())
	}
	if p.MicroBytes > 0 {
		v.Printf("micro-batches of %s: a step takes %s of memory besides weights and optimiser\n",
			ui.Count(v.cfg.Train.MicroBatch, "pair"), ui.Bytes(p.MicroBytes))
	}
	v.Printf("%s of %s, %s, %s of %d an epoch, %s\n", ui.Count(p.TrainCaptions, "caption"),
		ui.Count(p.TrainImages, "image"), ui.Count(p.DevImages, "validation image"), ui.Count(p.Batches, "batch"),
		p.Pairs, ui.Count(p.Epochs, "epoch"))
	if c := p.Coverage; c[0].Unknown+c[1].Unknown > 0 {
		v.Printf("words missing from the vocabulary: %.1f %% in training captions, %.1f %% in validation captions\n",
			c[0].Percent(), c[1].Percent())
	}
	if n := v.cfg.Train.Overfit; n > 0 {
		v.Printf("overfitting %s, which validations measure\n", ui.Count(n, "batch"))
	}
	switch {
	case p.Resume && p.Resumed.Step == 0:
		v.Printf("the run was interrupted before its first checkpoint: it starts at step 0\n")
	case p.Resume:
		done := float64(p.Resumed.Step) / float64(p.Batches)
		best := "no validation yet"
		if p.Resumed.BestStep > 0 {
			best = fmt.Sprintf("best M-Recall so far %.2f", p.Resumed.Best)
		}
		v.Printf("resumed after step %d (%.2f of %s done), %s\n", p.Resumed.Step, done, ui.Count(p.Epochs, "epoch"),
			best)
	}
	if v.dry {
		return
	}
	v.Printf("run directory %s\n", p.RunDir)
	total := int64(p.Batches) * int64(p.Epochs)
	if m := int64(v.cfg.Train.MaxSteps); m > 0 {
		total = min(total, m)
	}
	v.step = p.Resumed.Step
	v.bar = v.NewProgress("train", v.step, total)
}

// Step implements training.Observer.
func (v *trainView) Step(i train.StepInfo) {
	smooth := func(x *float64, now float64) {
		*x = cmp.Or(*x, now)
		*x += 0.05 * (now - *x)
	}
	smooth(&v.rate, float64(i.Batch)/i.Duration.Seconds())
	smooth(&v.loss, i.StepResult.Loss)
	smooth(&v.wait, i.DataWait.Seconds()/i.Duration.Seconds())
	v.step = i.Position.Step
	v.bar.Set(v.step, fmt.Sprintf("epoch %.2f  loss %.2f  %.0f captions/s  data wait %.1f %%%s", i.EpochPosition,
		v.loss, v.rate, 100*v.wait, gpuUsage(i.Usage)))
}

// gpuUsage is the part of the progress bar about the GPU, empty if its usage is unknown.
func gpuUsage(u *device.Usage) string {
	if u == nil {
		return ""
	}
	s := "  GPU"
	if u.Busy >= 0 {
		s += fmt.Sprintf(" %d %%", u.Busy)
	}
	return s + fmt.Sprintf(" %.1f of %.1f GB", float64(u.Used)/1e9, float64(u.Total)/1e9)
}

// Validating implements training.Observer.
func (v *trainView) Validating(what training.ValidationPhase, done, total int) {
	if v.dry {
		return
	}
	v.bar.Set(v.step, fmt.Sprintf("validation: %s %d %%", what, 100*done/max(1, total)))
}

// Validation implements training.Observer.
func (v *trainView) Validation(i train.ValidationInfo) {
	if !v.header {
		v.header = true
		v.bar.Result(fmt.Sprintf("%8s %7s | %6s %6s %6s | %6s %6s %6s | %8s",
			"step", "epoch", "i2t R1", "R5", "R10", "t2i R1", "R5", "R10", "M-Recall"))
	}
	row := func(what string, m eval.Metrics, better bool) {
		mark := ""
		if better {
			mark = " best"
		}
		v.bar.Result(fmt.Sprintf("%8s %7.2f | %6.1f %6.1f %6.1f | %6.1f %6.1f %6.1f | %8.2f%s", what, i.EpochPosition,
			m.I2T.R1, m.I2T.R5, m.I2T.R10, m.T2I.R1, m.T2I.R5, m.T2I.R10, m.MRecall, mark))
	}
	row(fmt.Sprint(i.Position.Step), i.Metrics, i.Better)
	if a := i.Average; a != nil {
		row("average", a.Metrics, a.Better)
	}
}

// Warning implements training.Observer.
func (v *trainView) Warning(err error) {
	if v.dry {
		v.Warnf("%v", err)
		return
	}
	v.bar.Println(v.app.Warning(err))
}

func (v *trainView) close() {
	v.resident.close()
	v.bar.Close()
}
