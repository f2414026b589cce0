package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/sweep"
)

type sweepCollectOptions struct {
	sweepFlags
	Out  string `flag:"out" arg:"DIR" usage:"write into DIR" empty:"the sweep's folder collect"`
	JSON bool   `flag:"json" usage:"print JSON instead of tables"`
}

func newCmdSweepCollect(a *app) *cobra.Command {
	return a.command(&sweepCollectOptions{}, &cobra.Command{
		Use:   "collect",
		Short: "Make tables, the best configuration and plots of a sweep",
		Long: `Collect the results of a sweep, finished or not: a table with mean and sample
standard deviation over the seeds, the best configuration, and plots.`,
		Example: `  vsetrain sweep collect --config demo
  vsetrain sweep collect --config demo --out tables --json`,
	})
}

func (o *sweepCollectOptions) run(_ context.Context, a *app) error {
	plan, store, err := o.load()
	if err != nil {
		return err
	}
	c, err := sweep.Collect(plan, store)
	if err != nil {
		return err
	}
	if len(c.Rows) == 0 {
		return fmt.Errorf("%s: no trial of the sweep has a result yet (%d failed); start it with vsetrain sweep run "+
			"--config %s", store.Dir, c.Failed, o.File)
	}
	out := cmp.Or(o.Out, filepath.Join(store.Dir, "collect"))
	files, err := c.Write(plan.Def, out, o.Out == "")
	if err != nil {
		return err
	}
	if o.JSON {
		return printJSON(a, c)
	}
	resultTable(a, plan, c)
	if c.Failed+c.Left > 0 {
		a.Printf("incomplete: %s failed, %d not finished\n", ui.Count(c.Failed, "trial"), c.Left)
	}
	if n := len(c.Best()); n > 1 {
		a.Printf("%d points are equal, with the best %s, %.2f\n", n, c.Metric, c.Rows[0].Mean)
	}
	for _, axis := range c.NoEffect {
		a.Printf("%s had no effect: points that differ only in it have the same %s\n", axis, c.Metric)
	}
	for _, x := range c.Importance {
		if slices.Contains(c.NoEffect, x.Axis) {
			continue
		}
		a.Printf("%-24s alone explains %3.0f %% of the variance of %s after %s\n",
			x.Axis, 100*x.Share, ui.Count(x.Points, "point"), ui.Count(x.Epochs, "epoch"))
	}
	if c.Overlap > 0 {
		a.Printf("these shares overlap (they add up to %.0f %%): the points do not vary the axes\n"+
			"independently, so what one seems to explain another explains too; a grid, or more points,\n"+
			"tells them apart\n", 100*c.Overlap)
	}
	for _, f := range files {
		a.Printf("wrote %s\n", f)
	}
	return nil
}

func resultTable(a *app, plan *sweep.Plan, c *sweep.Collection) {
	keys := plan.Def.Keys()
	t := ui.NewTable(append([]string{">rank", ">point", ">" + c.Metric, ">std", ">seeds", ">epochs", ">at epoch"},
		keys...)...)
	for _, r := range c.Rows {
		std, at := "", 0.0
		if r.Std != nil {
			std = fmt.Sprintf("%.2f", *r.Std)
		}
		for _, s := range r.Seeds {
			at += s.BestEpoch / float64(len(r.Seeds))
		}
		row := []string{fmt.Sprint(r.Rank), fmt.Sprint(r.Number), fmt.Sprintf("%.2f", r.Mean), std,
			fmt.Sprint(len(r.Seeds)), fmt.Sprint(r.Epochs), fmt.Sprintf("%.1f", at)}
		for _, k := range keys {
			row = append(row, r.Point.Text(k))
		}
		t.Row(row...)
	}
	t.Write(a.Streams)
}
