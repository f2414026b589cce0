package sweep

import (
	"context"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
)

// Means and deviations over the seeds, the best point first, and its configuration reads back as it was.
func TestCollect(t *testing.T) {
	p, s := planOf(t, batches)
	try.Do(t, worker(p, s, 2, "good", nil).Run(context.Background()))
	for i, x := range []float64{10, 14, 50, 60, 20, 20} {
		tr := p.Trials[i]
		r := Result{Epochs: 3, Score: x, Finished: time.Now()}
		try.Do(t, integrity.WriteJSON(filepath.Join(s.trialDir(tr.ID), "result-3.json"), r))
	}
	c := try.Get(Collect(p, s))(t)
	if r := c.Rows[0]; len(c.Rows) != 3 || r.Mean != 55 || math.Abs(*r.Std-math.Sqrt(50)) > 1e-12 ||
		r.Point.String() != "train.batch=32" || len(r.Seeds) != 2 {
		t.Errorf("%+v", c.Rows)
	}
	if c.Rows[1].Mean != 20 || *c.Rows[1].Std != 0 || c.Rows[2].Mean != 12 || c.Failed != 0 || c.Left != 0 {
		t.Errorf("%+v", c)
	}
	// within 8+50+0, total around 29: 361+225+441+961+81+81
	if x := c.Importance[0]; x.Axis != "train.batch" || math.Abs(x.Share-(1-(58.0/3)/(2150.0/5))) > 1e-12 ||
		x.Points != 3 {
		t.Errorf("importance %+v", c.Importance)
	}
	if r := c.Rows[0]; r.Settings["train.batch"] != 32 || r.Network != "vsepp" || r.Loss != "lmh" ||
		r.Seeds[0].Precision != "fp32" || c.Split != "dev" {
		t.Errorf("measured %+v of %+v", r, c)
	}
	env := filepath.Join(s.trialDir(p.Trials[0].ID), "env.json")
	try.Do(t, os.WriteFile(env, []byte("broken"), 0o600))
	try.Refuses(Collect(p, s))(t, "env.json")
	try.Do(t, os.Remove(env))
	dir := t.TempDir()
	files, err := c.Write(p.Def, dir, false)
	if err != nil || len(files) != 7 {
		t.Fatalf("%q, %v", files, err)
	}
	if m, err := integrity.Read(dir); err != nil || len(m.Names()) != len(files) { // so that verify reads them
		t.Errorf("manifest %v, %v", m, err)
	}
	best := try.Get(config.Load(config.Request{File: filepath.Join(dir, "best.yaml")}))(t)
	want := p.Trials[3].Config
	if want.Run.Dir = ""; len(config.Differences("", best.Config, want)) > 0 {
		t.Errorf("best.yaml is %+v, want %+v", best.Config, want)
	}
	b := try.Get(os.ReadFile(filepath.Join(dir, "results.csv")))(t)
	lines, err := csv.NewReader(strings.NewReader(string(b))).ReadAll()
	if err != nil || len(lines) != 7 || strings.Join(lines[0], " ") != "point trial seed epochs train.batch m_recall "+
		"best_epoch mean std rank" || lines[2][5] != "60" || lines[2][4] != "32" {
		t.Errorf("%v, %q", err, lines)
	}
	for _, name := range []string{"parallel.svg", "importance.svg"} {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !strings.Contains(string(b), "train.batch") {
			t.Errorf("%s shows no axis, %v", name, err)
		}
	}
}

// Points with the same mean share a rank, and an axis that changed no score is named, wherever results are shown.
func TestTies(t *testing.T) {
	p, s := planOf(t, batches)
	try.Do(t, worker(p, s, 2, "good", nil).Run(context.Background()))
	show := func(scores ...float64) (c *Collection, files map[string]string) {
		t.Helper()
		for i, x := range scores {
			r := Result{Epochs: 3, Score: x, Finished: time.Now()}
			try.Do(t, integrity.WriteJSON(filepath.Join(s.trialDir(p.Trials[i].ID), "result-3.json"), r))
		}
		c = try.Get(Collect(p, s))(t)
		dir := t.TempDir()
		files = map[string]string{}
		for _, path := range try.Get(c.Write(p.Def, dir, false))(t) {
			files[filepath.Base(path)] = string(try.Get(os.ReadFile(path))(t))
		}
		return c, files
	}
	ranks := func(c *Collection) (ranks []int) {
		for _, r := range c.Rows {
			ranks = append(ranks, r.Rank)
		}
		return ranks
	}
	has := func(files map[string]string, name string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(files[name], w) {
				t.Errorf("%s: no %q in\n%s", name, w, files[name])
			}
		}
	}
	c, files := show(10, 14, 10, 14, 10, 14)
	if !slices.Equal(ranks(c), []int{1, 1, 1}) || len(c.Best()) != 3 || !slices.Equal(c.NoEffect, p.Def.Keys()) {
		t.Errorf("all equal: ranks %v, without effect %q", ranks(c), c.NoEffect)
	}
	has(files, "best.yaml", "train.batch=16\n# m_recall 12.00 (mean of 2 seeds)", "# 3 points are equal; this "+
		"is the first of them:\n#   train.batch=32\n#   train.batch=64\n# train.batch had no effect.\n")
	has(files, "results.csv", "2.8284271247461903,1\n")
	has(files, "results.json", `"rank": 1`, `"axes_without_effect": [`)
	has(files, "parallel.svg", "train.batch (no effect)", "3 points, the thickest lines are the best 3,",
		"which are equal")
	has(files, "importance.svg", "train.batch (no effect)")
	c, files = show(10, 14, 14, 10, 9, 9)
	if !slices.Equal(ranks(c), []int{1, 1, 3}) || len(c.NoEffect) != 0 {
		t.Errorf("two of the same mean: ranks %v, without effect %q", ranks(c), c.NoEffect)
	}
	has(files, "best.yaml", "# 2 points are equal")
	try.Do(t, os.Remove(filepath.Join(s.trialDir(p.Trials[1].ID), "result-3.json")))
	c, files = show(20)
	if !slices.Equal(ranks(c), []int{1, 2, 3}) || strings.Contains(files["best.yaml"], "equal") {
		t.Errorf("one best: ranks %v\n%s", ranks(c), files["best.yaml"])
	}
	has(files, "best.yaml", "m_recall 20.00 (seed 1) after")
}

// Shares that add up to more than one are told.
func TestOverlap(t *testing.T) {
	if x := overlap([]Importance{{Share: 0.65}, {Share: 0.46}}); math.Abs(x-1.11) > 1e-12 {
		t.Errorf("overlap %v", x)
	}
	if x := overlap([]Importance{{Share: 0.65}, {Share: 0.3}}); x != 0 {
		t.Errorf("shares that add up to 0.95 overlap by %v", x)
	}
}

// An axis that decides everything explains everything, one that decides nothing next to nothing.
func TestEpsilonSquared(t *testing.T) {
	var decides, nothing []string
	var scores []float64
	for i := range 40 {
		decides = append(decides, string(rune('a'+i%4)))
		nothing = append(nothing, string(rune('a'+i/10)))
		scores = append(scores, float64(i%4))
	}
	if x, ok := epsilonSquared(decides, scores); !ok || x != 1 {
		t.Errorf("decides: %v", x)
	}
	if x, ok := epsilonSquared(nothing, scores); !ok || x != 0 {
		t.Errorf("nothing: %v", x)
	}
	if _, ok := epsilonSquared([]string{"a", "a"}, []float64{1, 2}); ok {
		t.Error("one group has an importance")
	}
	if _, ok := epsilonSquared([]string{"a", "b"}, []float64{1, 2}); ok {
		t.Error("groups of one have an importance")
	}
}
