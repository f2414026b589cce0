package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/apps/sweep"
	"vsetrain/lab/try"
)

func TestSweepProgress(t *testing.T) {
	low, high := 31.25, 42.5
	st := &sweep.Status{Metric: "m_recall", Trials: []sweep.Line{{State: sweep.Done, Best: &low}, {State: sweep.Failed},
		{Number: 2, State: sweep.Running, Best: &high}, {Number: 3, State: sweep.Waiting},
		{Number: 4, State: sweep.Paused, Best: &high}}}
	through, best := sweepProgress(st, 5)
	if through != 3 || best != "best m_recall 42.50, 2 trials equal" {
		t.Errorf("%d, %q", through, best)
	}
	st.Trials[4].Best = &low
	if _, best = sweepProgress(st, 5); best != "best m_recall 42.50, trial 2" {
		t.Errorf("one is best: %q", best)
	}
	if through, _ = sweepProgress(st, 3); through != 2 {
		t.Errorf("%d of 3 trials of a sweep that is not done", through)
	}
	st.Done = true
	if through, _ = sweepProgress(st, 3); through != 3 {
		t.Errorf("%d of 3 trials of a sweep that is done", through)
	}
	if through, best = sweepProgress(&sweep.Status{}, 5); through != 0 || best != "" {
		t.Errorf("of nothing: %d, %q", through, best)
	}
}

// On a terminal the lines stand above a bar; a pipe gets the lines alone, as results.
func TestSweepView(t *testing.T) {
	dir := t.TempDir()
	f := sweepFlags{File: filepath.Join(dir, "s.yaml"), Dir: filepath.Join(dir, "sw")}
	try.Do(t, os.WriteFile(f.File, []byte(killedSweep), 0o666))
	plan, store, err := f.load()
	try.Do(t, err)
	for _, tty := range []bool{false, true} {
		var out, errs bytes.Buffer
		v := &sweepView{app: newApp(&out, &errs), plan: plan, store: store}
		v.OutTTY, v.ErrTTY, v.Width = tty, tty, 100
		try.Do(t, v.open())
		v.event(sweep.Event{Kind: sweep.Failed, Job: sweep.Job{State: &sweep.State{Trial: plan.Trials[1]}},
			Fail: sweep.Failure{Error: "no memory"}})
		v.bar.Close()
		lines, rest := &out, &errs
		if tty {
			lines, rest = rest, lines
		}
		if !strings.Contains(lines.String(), "failed   trial 1 ") ||
			!strings.Contains(lines.String(), ": no memory\n") || rest.Len() > 0 || v.failed != 1 {
			t.Errorf("terminal %v: results %q, messages %q, %d failed", tty, &out, &errs, v.failed)
		}
		if strings.Contains(lines.String(), "0/2  0%") != tty {
			t.Errorf("terminal %v: %q", tty, lines)
		}
	}
}
