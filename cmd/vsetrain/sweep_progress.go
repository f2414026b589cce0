package main

import (
	"fmt"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/sweep"
)

// sweepView shows a running sweep: a line for each event of a trial and, on a terminal, a progress bar with the best
// result so far.
type sweepView struct {
	*app
	plan   *sweep.Plan
	store  *sweep.Store
	failed int // in this session
	bar    *ui.Progress
}

// open shows the bar on a terminal.
func (v *sweepView) open() error {
	if !v.OutTTY || !v.ErrTTY {
		return nil
	}
	st, err := sweep.ReadStatus(v.plan, v.store, v.Now())
	if err != nil {
		return err
	}
	through, best := sweepProgress(st, v.total())
	v.bar = v.NewProgress("trials", through, v.total())
	v.bar.Set(through, best)
	return nil
}

func (v *sweepView) event(e sweep.Event) {
	if e.Kind == sweep.Failed {
		v.failed++
	}
	line := v.Now().Format("15:04:05") + " " + eventText(e, v.plan.Def)
	if v.bar == nil {
		v.Printf("%s\n", line)
		return
	}
	v.bar.Println(line)
	st, err := sweep.ReadStatus(v.plan, v.store, v.Now())
	if err != nil {
		v.bar.Println(v.Warning(err))
		return
	}
	v.bar.Set(sweepProgress(st, v.total()))
}

func (v *sweepView) total() int64 { return int64(v.plan.Points * len(v.plan.Def.Seeds)) }

// sweepProgress counts the trials with nothing left to do, and describes the best result. With asha, results decide
// which trials continue, so all trials are through only when the sweep is done.
func sweepProgress(st *sweep.Status, total int64) (through int64, best string) {
	top, equal := -1, 0
	for i, l := range st.Trials {
		switch l.State {
		case sweep.Done, sweep.Paused, sweep.Pruned, sweep.Failed:
			through++
		}
		switch {
		case l.Best == nil || top >= 0 && *l.Best < *st.Trials[top].Best:
		case top >= 0 && *l.Best == *st.Trials[top].Best:
			equal++
		default:
			top, equal = i, 1
		}
	}
	if !st.Done {
		through = min(through, total-1)
	}
	if top >= 0 {
		which := fmt.Sprintf("trial %d", st.Trials[top].Number)
		if equal > 1 {
			which = fmt.Sprintf("%d trials equal", equal)
		}
		best = fmt.Sprintf("best %s %.2f, %s", st.Metric, *st.Trials[top].Best, which)
	}
	return through, best
}
