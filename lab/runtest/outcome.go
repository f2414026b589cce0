package runtest

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
)

// Outcome is what a run leaves, except for what depends on the clock: the tensors of its checkpoints, and its log.
type Outcome struct {
	tensors map[string]map[string][]byte // by the name of a checkpoint
	metrics []string
}

// ReadOutcome reads the outcome of a run with at least one checkpoint.
func ReadOutcome(dir string) (*Outcome, error) {
	files, err := filepath.Glob(Checkpoint(dir, "*.safetensors"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s has no checkpoint", dir))
	}
	o := &Outcome{tensors: map[string]map[string][]byte{}}
	for _, file := range files {
		if o.tensors[filepath.Base(file)], err = tensors(file); err != nil {
			return nil, err
		}
	}
	if o.metrics, err = readMetrics(dir); err != nil {
		return nil, fmt.Errorf("%s of %s: %w", runfs.MetricsName, dir, err)
	}
	return o, nil
}

// Differs returns an error if a run left other checkpoints or another log.
func (o *Outcome) Differs(dir string) error {
	for name, want := range o.tensors {
		got, err := tensors(Checkpoint(dir, name))
		if err != nil {
			return err
		}
		if len(got) != len(want) || len(got) == 0 {
			return fmt.Errorf("%s of %s has %d tensors, of the uninterrupted run %d", name, dir, len(got), len(want))
		}
		for k := range want {
			if !bytes.Equal(got[k], want[k]) {
				return fmt.Errorf("%s of %s: tensor %s differs from the uninterrupted run", name, dir, k)
			}
		}
	}
	got, err := readMetrics(dir)
	if err == nil && !slices.Equal(got, o.metrics) {
		err = fmt.Errorf("%s of %s has %d lines, want the %d of the uninterrupted run", runfs.MetricsName, dir,
			len(got), len(o.metrics))
	}
	return err
}

// tensors reads the tensors of a checkpoint.
func tensors(path string) (map[string][]byte, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][]byte{}
	for _, name := range f.Names() {
		x, _ := f.Tensor(name)
		out[name] = bytes.Clone(x.Data)
	}
	return out, nil
}
