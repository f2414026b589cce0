package training_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
	"vsetrain/train"
)

// The checkpoints of the best validations are kept, as named in the log. What falls out is removed, and what a session
// that was killed left behind too. The weights of the best one are the weights of best.
func TestKeep(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Keep, c.Optim.EMA = 2, 0.5
	dir := filepath.Join(t.TempDir(), "run")
	w := &runtest.Watcher{}
	try.Get(training.Train(t.Context(), runtest.Request(c, dir, w)))(t)
	want := func() (steps []int64) {
		all := slices.Clone(w.Validations)
		slices.SortStableFunc(all, func(a, b train.ValidationInfo) int {
			if a.Score > b.Score {
				return -1
			}
			return 1
		})
		return []int64{all[0].Step, all[1].Step}
	}()
	slices.Sort(want)
	kept := func() (steps []int64) {
		files := try.Get(filepath.Glob(filepath.Join(dir, runfs.CheckpointsName, "step-*.safetensors")))(t)
		for _, f := range files {
			info, err := models.ReadInfo(f)
			if err != nil || filepath.Base(f) != fmt.Sprintf("step-%08d.safetensors", info.Step) {
				t.Fatalf("%s: step %d, %v", f, info.Step, err)
			}
			steps = append(steps, info.Step)
		}
		return steps
	}
	if got := kept(); !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	info := try.Get(models.ReadInfo(runtest.Checkpoint(dir, runfs.BestName)))(t)
	runtest.SameTensors(t, runtest.Checkpoint(dir, fmt.Sprintf("step-%08d.safetensors", info.Step)),
		runtest.Checkpoint(dir, runfs.BestName))
	last := try.Get(models.ReadInfo(runtest.Checkpoint(dir, runfs.LastName)))(t)
	var st struct {
		train.State
		Kept []pretrained.Kept
	}
	if err := json.Unmarshal(last.Train, &st); err != nil || len(st.Kept) != 2 || st.Kept[0].Score < st.Kept[1].Score {
		t.Errorf("%+v, %v", st, err)
	}
	if a, err := models.ReadInfo(runtest.Checkpoint(dir, runfs.AverageName)); err != nil ||
		a.Score != st.Position.BestAverage {
		t.Errorf("averaged weights: %+v, %v", a, err)
	}
	// Left by a session that was killed before it could remove it.
	if err := os.Link(runtest.Checkpoint(dir, runfs.BestName), runtest.Checkpoint(dir,
		fmt.Sprintf("step-%08d.safetensors", 1))); err != nil {
		t.Skipf("needs hard links: %v", err)
	}
	c.Train.Epochs, c.Train.Keep = 3, 3
	runtest.Resume(t, runtest.Request(c, dir, w))
	if got := kept(); len(got) != 3 || slices.Contains(got, 1) {
		t.Errorf("kept %v after the run went on", got)
	}
}

// A checkpoint names the score of its own weights: last the score of the validation at its step, or none, however good
// an earlier one was.
func TestScoreOfTheLastWeights(t *testing.T) {
	dir, c := filepath.Join(t.TempDir(), "run"), runtest.TinyConfig()
	score := func(name string) float64 {
		t.Helper()
		info := try.Get(models.ReadInfo(runtest.Checkpoint(dir, name)))(t)
		return info.Score
	}
	w := &runtest.Watcher{}
	r := runtest.Request(c, dir, w)
	runtest.Interrupt(t, r, 7)
	if last, best := score(runfs.LastName), score(runfs.BestName); last != 0 || best != w.Validations[0].Score {
		t.Errorf("interrupted after a validation of %v: last has %v, best %v", w.Validations[0].Score, last, best)
	}
	runtest.Resume(t, r)
	if end := w.Validations[len(w.Validations)-1]; score(runfs.LastName) != end.Score || end.Score == 0 {
		t.Errorf("at the end last has %v, the validation %v", score(runfs.LastName), end.Score)
	}
}
