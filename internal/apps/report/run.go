package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vsetrain/eval"
	"vsetrain/internal/files/regular"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/models"
	"vsetrain/train"
)

// Run holds the contents of a run directory.
type Run struct {
	Dir    string
	Name   string // last element of Dir
	Label  string // of its loss, if one was given; otherwise it follows from the configuration
	Config config.Config
	Noise  *runfs.NoiseIndex // nil if every training caption has its own image
	// Warnings are the warnings of the last session about settings that do not fit together.
	Warnings []string
	Log
	// recalls of the best weights on the test split, one for each protocol; empty unless requested
	Test   []eval.Metrics
	Hits   []eval.Hits          // the answered queries, for each protocol
	Judged []eval.JudgedMetrics // measures by judgements with several positives

	Diagnosis *RunDiagnosis // explains the recalls on the test split; nil unless requested
}

// Finished reports whether the run is finished (Log.Finished).
func (r *Run) Finished() bool { return r.Log.Finished(&r.Config.Train) }

// Collapsed reports whether the best weights of the run come from a collapse (Log.Collapsed).
func (r *Run) Collapsed() bool { return r.Log.Collapsed(&r.Config) }

// Complete reports whether a run directory holds a run that is finished under the options, with its checkpoints:
// resuming it would train nothing. A directory that cannot be read is not complete.
func Complete(dir string, o *train.Options) bool {
	r, err := Open(dir)
	if err != nil {
		return false
	}
	p, ok := r.position(o)
	if !ok || !o.Finished(&p) {
		return false
	}
	stepOf := func(name string) int64 {
		info, err := models.ReadInfo(filepath.Join(dir, runfs.CheckpointsName, name+".safetensors"))
		if err != nil {
			return -1
		}
		return info.Step
	}
	return stepOf("last") == p.Step && (p.BestStep == 0 || stepOf("best") == p.BestStep)
}

// Open reads a run directory, even while the run is writing to it. It ignores an incomplete last line of the log. Any
// other line that cannot be read is an error that gives its number.
func Open(dir string) (*Run, error) {
	file := filepath.Join(dir, runfs.ConfigName)
	if _, err := os.Stat(file); err != nil {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("run directory %w", regular.Missing{Path: dir})
		}
		return nil, fmt.Errorf("%s: neither a run directory nor a folder of run directories: no %s in it",
			dir, runfs.ConfigName)
	}
	cfg, err := config.Load(config.Request{File: file})
	if err != nil {
		return nil, err
	}
	r := &Run{Dir: dir, Name: nameOf(dir), Config: cfg.Config}
	sessions, err := runfs.ReadSessions(dir)
	if err != nil {
		return nil, err
	}
	var session runfs.Env
	if len(sessions) > 0 {
		session = sessions[len(sessions)-1]
	}
	r.Warnings = session.Warnings
	if r.Noise = session.NoiseIndex; r.Noise != nil {
		// Files with the same name may differ, so the setting is the content of the file.
		r.Config.Data.NoiseIndex = fmt.Sprintf("%s %.12s", r.Noise.File, r.Noise.SHA256)
	}
	path := filepath.Join(dir, runfs.MetricsName)
	_, err = runfs.ReadLog(path, runfs.All, func(line []byte, n int) (bool, error) {
		if err := r.Add(line); err != nil {
			return false, fmt.Errorf("%s:%d: %w; fix or remove the line", path, n, err)
		}
		return true, nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: the run has no metrics yet: %w", dir, err)
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// nameOf returns the last element of a folder's absolute path.
func nameOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}
