package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/apps/sweep"
	"vsetrain/lab/try"
)

const killedSweep = `
set:
  data.dir: world
  model: {embed_dim: 64, word_dim: 32}
  train: {batch: 16, val_step: 5, epochs: 3, log_step: 1}
axes: [{param: optim.lr, values: [1e-3, 1e-2]}]
launcher: {workers: 2, threads: 1}
dir: sw
`

// A sweep that is killed continues where it stood: its trials end as if they had been trained alone in one piece, and
// none is trained again.
func TestKilledSweepGoesOn(t *testing.T) {
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(killedSweep), 0o666))
	mustRun(t, dir, "data synth world --train 80 --dev 10 --test 0 --regions 4 --dim 128")
	for range 2 {
		before := steps(t, dir)
		var out bytes.Buffer
		c := vsetrain(dir, &out, "sweep run --config s.yaml")
		try.Do(t, c.Start())
		until(t, "eight steps of a sweep", func() bool { return steps(t, dir) >= before+8 })
		try.Do(t, c.Process.Kill())
		c.Wait()
	}
	mustRun(t, dir, "sweep run --config s.yaml")
	s := sweepStatus(t, dir)
	if !s.Done || s.Counts[sweep.Done] != 2 {
		t.Fatalf("%+v", s.Counts)
	}
	hit := 0
	for _, l := range s.Trials {
		if sessions(t, l.Dir) > 1 {
			hit++
		}
		whole := filepath.Join(dir, "whole"+l.ID)
		mustRun(t, dir, "train --config", filepath.Join(l.Dir, "trial.yaml"), "--run", whole)
		sameRuns(t, l.Dir, whole)
	}
	if hit == 0 {
		t.Error("no trial was interrupted")
	}
	if out := mustRun(t, dir, "sweep run --config s.yaml"); strings.Contains(out, "started") {
		t.Errorf("a sweep that is done: %s", out)
	}
}

// steps counts the lines of metrics of all trials.
func steps(t *testing.T, dir string) (n int) {
	t.Helper()
	files := try.Get(filepath.Glob(filepath.Join(dir, "sw", "trials", "*", "metrics.jsonl")))(t)
	for _, f := range files {
		b := try.Get(os.ReadFile(f))(t)
		n += bytes.Count(b, []byte("\n"))
	}
	return n
}

// sweepStatus reads `vsetrain sweep status --json`.
func sweepStatus(t *testing.T, dir string) (s sweep.Status) {
	t.Helper()
	var v struct {
		Counts map[string]int
		Done   bool
		Trials []struct {
			ID, State, Job, Dir string
			Epoch               float64
		}
	}
	try.Do(t, json.Unmarshal([]byte(mustRun(t, dir, "sweep status --config s.yaml --json")), &v))
	s.Counts, s.Done = v.Counts, v.Done
	for _, l := range v.Trials {
		s.Trials = append(s.Trials, sweep.Line{ID: l.ID, State: l.State, Job: l.Job, Dir: filepath.Join(dir, l.Dir),
			Epoch: l.Epoch})
	}
	return s
}

// sessions counts the sessions of a run.
func sessions(t *testing.T, run string) int {
	t.Helper()
	b := try.Get(os.ReadFile(filepath.Join(run, "env.json")))(t)
	var v struct{ Sessions []json.RawMessage }
	try.Do(t, json.Unmarshal(b, &v))
	return len(v.Sessions)
}
