package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/sweep"
)

type sweepStatusOptions struct {
	sweepFlags
	JSON  bool          `flag:"json" usage:"print JSON"`
	Watch time.Duration `flag:"watch" min:"0" usage:"repeat after this time, such as 10s, until the sweep is done"`
}

func newCmdSweepStatus(a *app) *cobra.Command {
	return a.command(&sweepStatusOptions{}, &cobra.Command{
		Use:   "status",
		Short: "Show how far the trials of a sweep are",
		Long: `Show state, epochs, best metric and remaining time of every trial. The command
reads the files of the sweep, whether or not a worker is running.`,
		Example: `  vsetrain sweep status --config demo
  vsetrain sweep status --config demo --json`,
	})
}

func (o *sweepStatusOptions) run(ctx context.Context, a *app) error {
	plan, store, err := o.load()
	if err != nil {
		return err
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	for {
		st, err := sweep.ReadStatus(plan, store, a.Now())
		if err != nil {
			return err
		}
		if o.JSON {
			enc := json.NewEncoder(a.Raw())
			if o.Watch == 0 {
				enc.SetIndent("", "  ")
			}
			if err := enc.Encode(st); err != nil {
				return err
			}
		} else {
			statusTable(a, plan, st)
		}
		if o.Watch <= 0 || st.Done {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(o.Watch):
		}
	}
}

var stateStyles = map[string]ui.Style{sweep.Failed: ui.Red, sweep.Running: ui.Green, sweep.Stopped: ui.Yellow}

func statusTable(a *app, plan *sweep.Plan, st *sweep.Status) {
	keys := plan.Def.Keys()
	heads := []string{">point", "trial", ">seed", "state", ">epoch", ">of", ">best", ">left", "where"}
	for _, k := range keys {
		heads = append(heads, plan.Def.Short(k))
	}
	t := ui.NewTable(heads...)
	for _, l := range st.Trials {
		row := []string{fmt.Sprint(l.Number), l.ID, fmt.Sprint(l.Seed), l.State, "", "", "", "",
			strings.TrimSpace(l.Host + " " + l.Job)}
		if l.Target > 0 {
			row[4], row[5] = fmt.Sprintf("%.1f", l.Epoch), fmt.Sprint(l.Target)
		}
		if l.Best != nil {
			row[6] = fmt.Sprintf("%.2f", *l.Best)
		}
		if l.ETA != nil {
			row[7] = seconds(*l.ETA)
		}
		for _, k := range keys {
			row = append(row, l.Point.Text(k))
		}
		t.Row(row...)
	}
	t.DropEmpty()
	t.Write(a.Streams)
	for _, l := range st.Trials {
		if l.Error != "" {
			a.Printf("%s\n", a.Paint(stateStyles[sweep.Failed], fmt.Sprintf("trial %s failed: %s", l.ID, l.Error)))
		}
	}
	a.Printf("%s\n", countsText(st))
}

func countsText(st *sweep.Status) string {
	var parts []string
	for _, name := range []string{sweep.Done, sweep.Pruned, sweep.Paused, sweep.Running, sweep.Stopped, sweep.Waiting,
		sweep.Failed} {
		if n := st.Counts[name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	s := "trials: " + strings.Join(parts, ", ")
	if st.ETA != nil && *st.ETA > 0 {
		s += ", about " + seconds(*st.ETA) + " left"
	}
	return s
}

// seconds formats seconds as 1h2m3s.
func seconds(s float64) string { return (time.Duration(s+0.5) * time.Second).String() }
