package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/report"
)

type reportOptions struct {
	Out     string
	OrEqual bool
}

func newCmdReport(a *app) *cobra.Command {
	o := &reportOptions{}
	c := &cobra.Command{
		Use:   "report RUN...",
		Short: "Compare runs: best M-Recall, epochs needed, learning curves",
		Long: `Compare run directories, finished or still running. The first run is the base: for every other the table says after how
many epochs its validation M-Recall first exceeds the best of the base, and the difference to the epochs the base
itself needed (training efficiency as the LSEH paper measures it).`,
		Example: `  vsetrain report runs/vsepp-f8k-benchmark runs/vsepp-f8k-lseh
  vsetrain report runs/lmh1 runs/lseh --curves curves.svg`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(a, args) },
	}
	c.Flags().StringVar(&o.Out, "curves", "", "draw M-Recall over epochs to `FILE` (.svg, .png or .pdf)")
	c.Flags().BoolVar(&o.OrEqual, "or-equal", false, "count the epochs to reach the best of the base instead of exceeding it")
	return c
}

func (o *reportOptions) run(a *app, dirs []string) error {
	var runs []*report.Run
	for _, dir := range dirs {
		r, err := report.Open(dir)
		if err != nil {
			return err
		}
		if len(runs) > 0 && r.Config.Data.Dir != runs[0].Config.Data.Dir {
			return fmt.Errorf("%s was trained on %s, %s on %s: runs on different data cannot be compared", dir, r.Config.Data.Dir, dirs[0], runs[0].Config.Data.Dir)
		}
		runs = append(runs, r)
	}
	t := ui.NewTable("run", "network", "loss", ">seed", ">epochs", ">best M-Recall", ">at epoch", ">exceeds base at", ">difference")
	for i, r := range runs {
		h := r.History()
		b, _ := report.Best(h)
		exceeds, diff := "", ""
		if i > 0 {
			e := report.Compare(runs[0].History(), h, o.OrEqual)
			exceeds, diff = "not reached", ""
			if e.Reached {
				abs, pct := e.Difference()
				exceeds, diff = fmt.Sprintf("%.1f", e.Epochs), fmt.Sprintf("%+.1f (%+.1f %%)", abs, pct)
			}
		}
		last := 0.0
		if len(h) > 0 {
			last = h[len(h)-1].Epoch
		}
		t.Row(r.Name, r.Config.Model.Network, r.Config.Loss.Name, fmt.Sprint(r.Config.Seed), fmt.Sprintf("%.1f", last),
			fmt.Sprintf("%.2f", b.MRecall), fmt.Sprintf("%.1f", b.Epoch), exceeds, diff)
	}
	t.Write(a.Streams)
	if o.Out == "" {
		return nil
	}
	if err := report.Curves(o.Out, runs); err != nil {
		return err
	}
	a.Printf("curves in %s\n", o.Out)
	return nil
}
