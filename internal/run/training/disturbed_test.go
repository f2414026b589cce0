package training_test

import (
	"errors"
	"path/filepath"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/lab/crash"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// A training of two ranks, of which the machine has a power failure, or whose calls fail, at any moment: resumed by two
// ranks it ends as the undisturbed one, and no rank waits for another that has ended.
func TestDisturbedRanks(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs, c.Train.Batch, c.Train.ValStep, c.Train.LogStep = 1, 64, 2, 1
	dir := try.MemoryDir(t)
	run := filepath.Join(dir, "run")
	var want *runtest.Outcome
	train := func() error {
		begun, err := runfs.Exists(filepath.Join(run, runfs.ConfigName))
		if err != nil {
			return err
		}
		errs, _ := job(t, c, run, 2, begun, nil)
		if err = errors.Join(errs...); err == nil && want == nil {
			want, err = runtest.ReadOutcome(run)
		}
		return err
	}
	crash.Disturb(t, "train, two ranks", 1, &crash.Program{Dir: dir, Run: train, Again: train,
		Done: func() error { return want.Differs(run) }})
}
