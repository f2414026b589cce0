package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/run/inputs"
)

type sweepPlanOptions struct {
	sweepFlags
	launcherFlag
	Output string `flag:"output,o" enum:"table|json|yaml|script" default:"table" usage:"what to print; yaml is for kubernetes, script for slurm"`
}

func newCmdSweepPlan(a *app) *cobra.Command {
	return a.command(&sweepPlanOptions{}, &cobra.Command{
		Use:   "plan",
		Short: "Show the trials of a sweep and check their configurations",
		Long: `Resolve and check the configuration of every trial, look for its data, and list
the trials. Nothing is written.

--output yaml with --launcher kubernetes prints the manifest of the Indexed Job, --output script with --launcher
slurm the script of the job array.`,
		Example: `  vsetrain sweep plan --config demo
  vsetrain sweep plan --config demo --launcher slurm --output script`,
	})
}

// launcherFlag overrides the launcher of the sweep.
type launcherFlag struct {
	Launcher string `flag:"launcher" enum:"local|slurm|kubernetes" usage:"launcher to use instead of the sweep's"`
}

// choose sets the launcher of a sweep if the flag was given.
func (f *launcherFlag) choose(d *sweep.Definition) error {
	if f.Launcher == "" {
		return nil
	}
	d.Launch.Kind = f.Launcher
	if key, text := d.Launch.Check(); key != "" {
		return usagef("--launcher %s: launcher.%s: %s", f.Launcher, key, text)
	}
	return nil
}

func (o *sweepPlanOptions) run(_ context.Context, a *app) error {
	plan, store, err := o.load()
	if err != nil {
		return err
	}
	if err := o.choose(plan.Def); err != nil {
		return err
	}
	kind, text := plan.Def.Launch.Kind, []byte(nil)
	switch {
	case o.Output == "table":
		planTable(a, plan)
		if err := checkData(plan); err != nil {
			a.Errorf("warning: no trial can be trained here: %v", err)
		}
		warnTogether(a, plan)
		return nil
	case o.Output == "json":
		return planJSON(a, plan)
	case o.Output == "yaml" && kind == sweep.OnKubernetes:
		text, err = manifest(plan, store)
	case o.Output == "script" && kind == sweep.OnSlurm:
		text, err = arrayScript(plan, store)
	default:
		err = usagef("--output %s: expected table or json, yaml with --launcher kubernetes, or script with --launcher "+
			"slurm", o.Output)
	}
	if err == nil {
		a.Print(string(text))
	}
	return err
}

// checkData opens the data sets of the trials, each once.
func checkData(plan *sweep.Plan) error {
	seen := map[string]bool{}
	for _, t := range plan.Trials {
		if key := t.Config.Data.Dir + "\n" + t.Config.Model.Network; !seen[key] {
			seen[key] = true
			if err := inputs.CheckData(&t.Config); err != nil {
				return err
			}
		}
	}
	return nil
}

// warnTogether warns of settings that do not go together, with the number of trials that have them.
func warnTogether(a *app, plan *sweep.Plan) {
	var texts []string
	trials := map[string]int{}
	captions := map[string]int{} // of training splits
	for _, t := range plan.Trials {
		key := t.Config.Data.Dir + "\n" + t.Config.Model.Network
		if _, known := captions[key]; !known {
			captions[key] = inputs.Captions(&t.Config)
		}
		warnings, err := t.Config.Together(captions[key])
		for _, w := range append(warnings, err) {
			if w == nil {
				continue
			}
			if trials[w.Error()]++; trials[w.Error()] == 1 {
				texts = append(texts, w.Error())
			}
		}
	}
	for _, text := range texts {
		a.Warnf("%d of %s: %s", trials[text], ui.Count(len(plan.Trials), "trial"), text)
	}
}

func planTable(a *app, plan *sweep.Plan) {
	d := plan.Def
	heads := []string{">point", "trial", ">seed", ">epochs"}
	keys := d.Keys()
	t := ui.NewTable(append(heads, keys...)...)
	for _, tr := range plan.Trials {
		row := []string{fmt.Sprint(tr.Number), tr.ID, fmt.Sprint(tr.Seed), fmt.Sprint(tr.Epochs)}
		for _, k := range keys {
			row = append(row, tr.Point.Text(k))
		}
		t.Row(row...)
	}
	t.Write(a.Streams)
	a.Printf("%s: %s x %s, metric %s, folder %s\n", d.Method, ui.Count(plan.Points, "point"),
		ui.Count(len(d.Seeds), "seed"), d.Metric, d.Dir)
	if plan.Duplicates > 0 {
		a.Printf("%d combinations skipped: their settings are the same as an earlier one's\n", plan.Duplicates)
	}
	if rest := plan.Points - len(plan.Trials)/len(d.Seeds); rest > 0 {
		a.Printf("%d further points depend on the results of these\n", rest)
	}
	if d.Method == sweep.ASHA {
		a.Printf("rungs of %s epochs; one point in %d continues to the next\n", strings.Trim(fmt.Sprint(d.Rungs), "[]"),
			d.Factor)
	}
}

func planJSON(a *app, plan *sweep.Plan) error {
	type trial struct {
		Number int         `json:"number"`
		ID     string      `json:"id"`
		Seed   uint64      `json:"seed"`
		Epochs int         `json:"epochs"`
		Point  sweep.Point `json:"point"`
		Dir    string      `json:"dir"`
	}
	list := []trial{}
	for _, t := range plan.Trials {
		list = append(list, trial{t.Number, t.ID, t.Seed, t.Epochs, t.Point, t.Config.Run.Dir})
	}
	return printJSON(a, map[string]any{"method": plan.Def.Method, "metric": plan.Def.Metric, "dir": plan.Def.Dir,
		"points": plan.Points, "trials": list})
}
