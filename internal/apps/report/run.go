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

// Run is what the files of a run directory tell.
type Run struct {
	Dir    string
	Name   string // last element of Dir
	Label  string // of its loss, where it was given one; else it is found from the configuration
	Config config.Config
	Noise  *runfs.NoiseIndex // nil where every training caption has its image
	// Warnings are what a person was told, before the last session, of settings that do not go together.
	Warnings []string
	Log
	// recalls of its best weights on the test split, one for each protocol; empty unless they were asked for
	Test   []eval.Metrics
	Hits   []eval.Hits          // which queries they answer, for each protocol
	Judged []eval.JudgedMetrics // the same by judgements with several positives

	Diagnosis *RunDiagnosis // where the recalls on the test split come from; nil unless it was asked for
}

// Finished reports whether the run came to its end (Log.Finished).
func (r *Run) Finished() bool { return r.Log.Finished(&r.Config.Train) }

// Collapsed reports whether its best weights are the result of a collapse (Log.Collapsed).
func (r *Run) Collapsed() bool { return r.Log.Collapsed(&r.Config) }

// Complete reports whether a run directory holds a run that came to its end by the options, with the checkpoints that
// belong to it: nothing would be trained if it were resumed. A directory that cannot be read is not complete.
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

// Open reads a run directory, also while the run is writing it. A last line without an end is being written and left
// out; any other line that cannot be read is an error that names it.
func Open(dir string) (*Run, error) {
	file := filepath.Join(dir, runfs.ConfigName)
	if _, err := os.Stat(file); err != nil {
		if _, err := os.Stat(dir); err != nil {
			return nil, fmt.Errorf("run directory %w", regular.Missing{Path: dir})
		}
		return nil, fmt.Errorf("%s: neither a run directory nor a folder that holds some: no %s in it",
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
		// Files of one name differ, so that the setting is what the file holds.
		r.Config.Data.NoiseIndex = fmt.Sprintf("%s %.12s", r.Noise.File, r.Noise.SHA256)
	}
	path := filepath.Join(dir, runfs.MetricsName)
	_, err = runfs.ReadLog(path, runfs.All, func(line []byte, n int) (bool, error) {
		if err := r.Add(line); err != nil {
			return false, fmt.Errorf("%s:%d: %w; mend or remove the line", path, n, err)
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

// nameOf is the last element of a folder's path, also of "." and "..".
func nameOf(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return filepath.Base(dir)
}
