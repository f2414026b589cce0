// Package report turns finished and running runs into the tables, figures and pictures of the LSEH paper (specification,
// analysis.md): training efficiency, recalls, learning curves, unique and hardest negatives, attention maps, computation time.
//
// Runs (run.go) are put together by data set, network and loss (group.go). Build makes a Report of them: sections of tables (table.go),
// figures (figure.go) and pictures, which is written as text, Markdown, LaTeX, CSV, image files or one page of HTML.
package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"vsetrain/eval"
	"vsetrain/internal/config"
	"vsetrain/internal/experiment"
	"vsetrain/internal/runfs"
)

// Run is what the files of a run directory tell.
type Run struct {
	Dir         string
	Name        string // last element of Dir
	Label       string // of its loss, where it was given one; else it is found from the configuration
	Config      config.Config
	Validations []experiment.ValidationRecord // in the order of their steps
	Steps       []experiment.StepRecord
	Test        []eval.Metrics // recalls of its best weights on the test split, one for each protocol; empty unless they were asked for
}

// Open reads a run directory, also while the run is writing it. A last line without an end is being written and left out; any other line
// that cannot be read is an error that names it.
func Open(dir string) (*Run, error) {
	file := filepath.Join(dir, runfs.ConfigName)
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("%s: not a run directory: it has no %s", dir, runfs.ConfigName)
	}
	cfg, err := config.Load(config.Request{File: file})
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir, Name: nameOf(dir), Config: cfg.Config}
	path := filepath.Join(dir, runfs.MetricsName)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: the run has no metrics yet: %w", dir, err)
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if err := r.add(bytes.TrimSpace(line)); err != nil {
			return nil, fmt.Errorf("%s:%d: %w; mend or remove the line", path, n, err)
		}
	}
}

// nameOf is the last element of a folder's path, also of "." and "..".
func nameOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}

func (r *Run) add(line []byte) error {
	var kind struct {
		Kind  string
		Epoch float64
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return fmt.Errorf("expected a JSON object, found %.40q: %w", line, err)
	}
	if !(kind.Epoch >= 0) {
		return fmt.Errorf("epoch %v; expected a position of at least 0", kind.Epoch)
	}
	switch kind.Kind {
	case "val":
		var v experiment.ValidationRecord
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		if !(v.MRecall >= 0 && v.MRecall <= 100) {
			return fmt.Errorf("m_recall %v; expected 0 to 100", v.MRecall)
		}
		r.Validations = append(r.Validations, v)
	case "train":
		var v experiment.StepRecord
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		r.Steps = append(r.Steps, v)
	default:
		return fmt.Errorf(`kind %q; expected "train" or "val"`, kind.Kind)
	}
	return nil
}

// Point is a validation: the position in epochs and the M-Recall.
type Point struct{ Epoch, MRecall float64 }

// History returns the validations as points.
func (r *Run) History() []Point {
	out := make([]Point, len(r.Validations))
	for i, v := range r.Validations {
		out[i] = Point{v.Epoch, v.MRecall}
	}
	return out
}

// Epochs is how far the run has been logged.
func (r *Run) Epochs() float64 {
	last := 0.0
	for _, s := range r.Steps {
		last = math.Max(last, s.Epoch)
	}
	for _, v := range r.Validations {
		last = math.Max(last, v.Epoch)
	}
	return last
}

// best returns the first validation with the largest M-Recall.
func (r *Run) best() (experiment.ValidationRecord, bool) {
	var best experiment.ValidationRecord
	found := false
	for _, v := range r.Validations {
		if !found || v.MRecall > best.MRecall {
			best, found = v, true
		}
	}
	return best, found
}

// Finished reports whether the run came to its end: the epochs or steps of its configuration, or so many validations without a better one.
func (r *Run) Finished() bool {
	o := r.Config.Train
	if r.Epochs() >= float64(o.Epochs)-1e-9 {
		return true
	}
	stale, best, step := 0, math.Inf(-1), int64(0)
	for _, v := range r.Validations {
		if stale++; v.MRecall > best {
			best, stale = v.MRecall, 0
		}
		step = v.Step
	}
	return o.EarlyStop > 0 && stale >= o.EarlyStop || o.MaxSteps > 0 && step >= int64(o.MaxSteps)
}
