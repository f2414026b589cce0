package training_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/tfevents"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// What makes a training pointless is said before the first step.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(c *config.Config)
		blas   string
		words  []string // of one warning; none for no warning
	}{
		{"nothing", func(*config.Config) {}, "", nil},
		{"few batches", func(c *config.Config) { c.Train.Batch = 190 }, "",
			[]string{"only 2 steps", "train.batch is 190 of 200 captions"}},
		{"learning rate", func(c *config.Config) { c.Optim.LR = 9 }, "",
			[]string{"optim.lr 9 is high", "0.0002 to 0.002"}},
		{"bf16 in software", func(c *config.Config) { c.Device.Precision = "bf16" }, "generic",
			[]string{"no bf16 instructions", "slower than fp32"}},
		{"fp32", func(*config.Config) {}, "generic", nil},
	} {
		cfg := runtest.TinyConfig()
		cfg.Train.MaxSteps = 1
		c.change(cfg)
		w := &runtest.Watcher{}
		r := runtest.Request(cfg, filepath.Join(t.TempDir(), "run"), w)
		r.BLAS = c.blas
		try.Get(training.Train(t.Context(), r))(t)
		if len(c.words) == 0 && len(w.Warnings) > 0 {
			t.Errorf("%s: %q", c.name, w.Warnings)
			continue
		}
		for _, word := range c.words {
			if len(w.Warnings) != 1 || !strings.Contains(w.Warnings[0].Error(), word) {
				t.Errorf("%s: %q lacks %q", c.name, w.Warnings, word)
			}
		}
	}
}

// A disk without room for the checkpoints ends the run before its first step; one with room for the first of them alone
// is warned about.
func TestDiskTooSmall(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.MaxSteps = 1
	whole := runtest.Train(t, c)
	var sizes []int64
	for _, name := range []string{runfs.BestName, runfs.LastName} {
		st := try.Get(os.Stat(runtest.Checkpoint(whole, name)))(t)
		sizes = append(sizes, st.Size())
	}
	best, last := sizes[0], sizes[1]
	attempt := func(free int64) (*runtest.Watcher, string, error) {
		w, dir := &runtest.Watcher{}, filepath.Join(t.TempDir(), "run")
		r := runtest.Request(c, dir, w)
		r.FreeDisk = func(string) (int64, error) { return free, nil }
		_, err := training.Train(t.Context(), r)
		return w, dir, err
	}
	w, dir, err := attempt(last)
	try.Fails(t, err, "the checkpoints of the run need",
		"free some space, or choose a directory on another disk with --run")
	if len(w.Steps) > 0 {
		t.Errorf("%d steps were done", len(w.Steps))
	}
	if _, err := os.Stat(filepath.Join(dir, runfs.ConfigName)); err == nil {
		t.Error("the directory looks like a run")
	}
	if w, _, err = attempt(best + last); err != nil || len(w.Warnings) != 1 ||
		!strings.Contains(w.Warnings[0].Error(), "a new one beside them need") {
		t.Errorf("%q, %v", w.Warnings, err)
	}
	for _, free := range []int64{best + 2*last, 0} { // enough, and unknown
		if w, _, err = attempt(free); err != nil || len(w.Warnings) > 0 {
			t.Errorf("%d bytes: %q, %v", free, w.Warnings, err)
		}
	}
}

// A memory that does not hold weights and optimiser is told of before the first step; the run goes on.
func TestLittleMemoryIsForeseen(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.MaxSteps = 1
	for free, warns := range map[int64]bool{1000: true, 1 << 40: false, 0: false} {
		w := &runtest.Watcher{}
		r := runtest.Request(c, filepath.Join(t.TempDir(), "run"), w)
		r.FreeMemory = func() int64 { return free }
		if _, err := training.Train(t.Context(), r); err != nil || (len(w.Warnings) > 0) != warns {
			t.Errorf("%d bytes: %v, %v", free, w.Warnings, err)
		}
		if warns && !strings.Contains(w.Warnings[0].Error(),
			"weights and optimiser alone need ") {
			t.Errorf("%v", w.Warnings)
		}
	}
}

// Every line of the metrics says when it was written, and the events begin with the settings of the run.
func TestTimesAndSettings(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.MaxSteps = 3
	begin := time.Now().Add(-time.Second)
	dir := runtest.Train(t, c)
	f := try.Get(os.Open(filepath.Join(dir, runfs.MetricsName)))(t)
	defer f.Close()
	last, lines := begin, 0
	for s := bufio.NewScanner(f); s.Scan(); lines++ {
		var line struct {
			Kind string
			Time string
		}
		try.Do(t, json.Unmarshal(s.Bytes(), &line))
		at, err := time.Parse(time.RFC3339Nano, line.Time)
		if err != nil || at.Before(last) || at.After(time.Now()) || !strings.HasSuffix(line.Time, "Z") ||
			len(line.Time) > len("2026-01-02T15:04:05.000Z") {
			t.Errorf("line %d: time %q after %v", lines+1, line.Time, last)
		}
		last = at
	}
	if lines != 4 {
		t.Errorf("%d lines, want 3 steps and a validation", lines)
	}
	files, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	events := try.Get(tfevents.Read(files[0]))(t)
	if !slices.ContainsFunc(events[:2], func(e tfevents.Event) bool {
		return e.Tag == "_hparams_/session_start_info" &&
			e.Step == 0
	}) {
		t.Errorf("no settings at the start: %s", fmt.Sprint(events[:2]))
	}
}
