// Package report turns finished and running runs into tables and figures: training efficiency as the LSEH paper measures it
// (specification, analysis.md §1) and learning curves.
package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"vsetrain/internal/config"
	"vsetrain/internal/experiment"
	"vsetrain/internal/runfs"
)

// Run is what the files of a run directory tell.
type Run struct {
	Dir         string
	Name        string // last element of Dir
	Config      config.Config
	Validations []experiment.ValidationRecord // in the order of their steps
	Steps       []experiment.StepRecord
}

// Open reads a run directory, also while the run is writing it.
func Open(dir string) (*Run, error) {
	file := filepath.Join(dir, runfs.ConfigName)
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("%s: not a run directory: it has no %s", dir, runfs.ConfigName)
	}
	cfg, err := config.Load(config.Request{File: file})
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir, Name: filepath.Base(filepath.Clean(dir)), Config: cfg.Config}
	path := filepath.Join(dir, runfs.MetricsName)
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: the run has no metrics yet: %w", dir, err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	var torn error // a line that does not parse is an error unless it is the last, which may be half-written
	for n := 1; s.Scan(); n++ {
		if torn != nil {
			return nil, torn
		}
		if err := r.add(s.Bytes()); err != nil {
			torn = fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	return r, s.Err()
}

func (r *Run) add(line []byte) error {
	var kind struct{ Kind string }
	if err := json.Unmarshal(line, &kind); err != nil {
		return err
	}
	switch kind.Kind {
	case "val":
		var v experiment.ValidationRecord
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		r.Validations = append(r.Validations, v)
	case "train":
		var v experiment.StepRecord
		if err := json.Unmarshal(line, &v); err != nil {
			return err
		}
		r.Steps = append(r.Steps, v)
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
