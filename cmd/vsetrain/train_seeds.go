package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/report"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/train"
)

// maxSeeds bounds --seeds: a longer list is a mistake.
const maxSeeds = 1000

// seedRun is a run of --seeds.
type seedRun struct {
	seed  uint64
	dir   string
	begun bool // by an earlier session
	cfg   *config.Config
}

// runSeeds trains a run for each seed and compares the runs. It checks the list, the configuration and the folders
// before the first run begins.
func (o *trainOptions) runSeeds(ctx context.Context, a *app) error {
	o.Resume = o.Resume || o.AutoResume
	runs, base, err := o.seedRuns(a)
	if err != nil {
		return err
	}
	again := fmt.Sprintf("vsetrain train --resume --run %s --seeds %s", base,
		strings.ReplaceAll(strings.Trim(fmt.Sprint(o.Seeds), "[]"), " ", ","))
	session := newTrainSession(a, runs[0].cfg)
	ctx, stop := a.saving(ctx, session.abandon)
	defer stop()
	for i, r := range runs {
		a.Printf("%s\n", a.Paint(ui.Bold, fmt.Sprintf("seed %d (%d of %d)", r.seed, i+1, len(runs))))
		if r.begun && report.Complete(r.dir, &r.cfg.Train) {
			a.Printf("%s is complete\n", r.dir)
			continue
		}
		out, err := session.train(ctx, r.cfg, r.dir, r.begun)
		switch {
		case errors.Is(err, train.ErrInterrupted):
			return &codedError{fmt.Errorf("seed %d: %w: %s", r.seed, err, again), exitInterrupted}
		case err != nil:
			return fmt.Errorf("seed %d: %w\n%s of %s are complete; once the cause is fixed: %s", r.seed, err,
				ui.Count(i, "run"), ui.Count(len(runs), "seed"), again)
		}
		printOutcome(a, r.cfg, out.Position, r.dir)
	}
	return o.compareSeeds(a, runs)
}

// seedRuns resolves the configuration of every run. base is the common prefix of their directories. Without --resume,
// none of the directories may hold a run.
func (o *trainOptions) seedRuns(a *app) (runs []seedRun, base string, err error) {
	f := o.configFlags
	base = o.Run
	if len(o.Seeds) > maxSeeds {
		return nil, "", usagef("--seeds: expected at most %d seeds, found %d", maxSeeds, len(o.Seeds))
	}
	from := "" // the run that the configuration is taken from
	if o.Resume && f.File == "" {
		if base == "" {
			return nil, "", usagef("--resume needs --run DIR, or the --config FILE of the runs")
		}
		for _, seed := range o.Seeds {
			dir := seedDir(base, seed)
			if f.File, err = inputs.RunConfig(dir); err == nil {
				from = dir
				break
			}
		}
		if from == "" {
			return nil, "", fmt.Errorf("%s: no run to resume, nor one of the other seeds; start with --config FILE",
				seedDir(base, o.Seeds[0]))
		}
	}
	for _, seed := range o.Seeds {
		one := f
		one.Aliases = append(slices.Clone(f.Aliases),
			config.Alias{Flag: "--seeds", Key: "seed", Text: fmt.Sprint(seed)})
		cfg, err := one.load(a)
		if err != nil {
			return nil, "", err
		}
		base = cmp.Or(base, cfg.RunDir(o.File))
		r := seedRun{seed: seed, dir: seedDir(base, seed), cfg: &cfg.Config}
		if r.begun, err = runfs.Exists(filepath.Join(r.dir, runfs.ConfigName)); err != nil {
			return nil, "", err
		}
		if r.begun && !o.Resume {
			return nil, "", fmt.Errorf("%s holds a run already; continue all of them with --resume, or choose other "+
				"directories with --run", r.dir)
		}
		if from != "" && !r.begun { // relative paths are relative to the directory where that run was started
			if err := inputs.LocateRun(from, r.cfg); err != nil {
				return nil, "", err
			}
		}
		runs = append(runs, r)
	}
	return runs, base, nil
}

func seedDir(base string, seed uint64) string {
	return fmt.Sprintf("%s-seed%d", filepath.Clean(base), seed)
}

// compareSeeds prints the table of the runs.
func (o *trainOptions) compareSeeds(a *app, runs []seedRun) error {
	var all []*report.Run
	next := "next: vsetrain report"
	for _, r := range runs {
		run, err := report.Open(r.dir)
		if err != nil {
			return err
		}
		all = append(all, run)
		next += " " + r.dir
	}
	t := report.Seeds(all)
	a.Show("\n" + t.Text(func(s string) string { return a.Paint(ui.Bold, s) }))
	a.Printf("%s --test\n", next)
	return nil
}
