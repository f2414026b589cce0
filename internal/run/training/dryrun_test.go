package training_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/train"
)

// The predicted steps and validations are those that a run does, and the sizes the sizes of its checkpoints; a dry run
// makes no folder.
func TestDryRun(t *testing.T) {
	for _, change := range []func(o *train.Options){
		func(*train.Options) {},
		func(o *train.Options) { o.ValStep = 0 },
		func(o *train.Options) { o.MaxSteps = 20 },
		func(o *train.Options) { o.ValStep, o.MaxSteps = 13, 15 },
	} {
		c := runtest.TinyConfig()
		change(&c.Train)
		c.Optim.EMA = 0.5
		dir := filepath.Join(t.TempDir(), "sub", "run")
		r := runtest.Request(c, dir, &runtest.Watcher{})
		r.FreeDisk = func(string) (int64, error) { return 1 << 40, nil }
		rep := try.Get(training.DryRun(t.Context(), r))(t)
		if _, err := os.Stat(filepath.Dir(dir)); err == nil {
			t.Fatal("a dry run made a folder")
		}
		w := &runtest.Watcher{}
		try.Get(training.Train(t.Context(), runtest.Request(c, dir, w)))(t)
		if int(rep.Steps) != len(w.Steps) || int(rep.Validations) != len(w.Validations) {
			t.Errorf("predicted %d steps and %d validations, were %d and %d", rep.Steps, rep.Validations, len(w.Steps),
				len(w.Validations))
		}
		size := func(name string) int64 {
			st := try.Get(os.Stat(runtest.Checkpoint(dir, name)))(t)
			return st.Size()
		}
		weights := size(runfs.BestName) + size(runfs.AverageName)
		for _, s := range [][2]int64{{rep.Weights, weights}, {rep.Last, size(runfs.LastName)}} {
			if math.Abs(float64(s[0]-s[1])) > 0.5*float64(s[1]) { // headers are half of such small files
				t.Errorf("predicted %d bytes, were %d", s[0], s[1])
			}
		}
		if rep.Step <= 0 || rep.Validation <= 0 || rep.FreeDisk != 1<<40 || rep.Whole <= 0 {
			t.Errorf("%+v", rep)
		}
		again, err := training.DryRun(t.Context(), r) // beside the run
		if err != nil || again.Steps != rep.Steps || again.Loss != rep.Loss {
			t.Errorf("beside a run: %+v, %v; without it %+v", again, err, rep)
		}
	}
}

// The rates of a range test rise by a constant factor; it ends where the loss grows, and writes nothing.
func TestLRRange(t *testing.T) {
	t.Chdir(t.TempDir())
	c := runtest.TinyConfig()
	q := training.RangeRequest{Request: runtest.Request(c, "run", &runtest.Watcher{}), From: 1e-4, To: 1e-2, Steps: 21}
	rep, err := training.LRRange(t.Context(), q)
	if err != nil || len(rep.Points) != 21 || rep.Diverged {
		t.Fatalf("%d points, diverged %v, %v", len(rep.Points), rep.Diverged, err)
	}
	for i, p := range rep.Points {
		if want := 1e-4 * math.Pow(100, float64(i)/20); math.Abs(p.LearningRate-want) > 1e-12 || !(p.Loss > 0) {
			t.Errorf("step %d: %+v, want rate %v", i+1, p, want)
		}
	}
	if files, err := os.ReadDir("."); err != nil || len(files) > 0 {
		t.Errorf("the test wrote %v, %v", files, err)
	}
	for _, bad := range []training.RangeRequest{{From: 1, To: 1, Steps: 20}, {From: 0, To: 1, Steps: 20},
		{From: 0.1, To: 1, Steps: 3}} {
		bad.Request = q.Request
		if _, err := training.LRRange(t.Context(), bad); err == nil {
			t.Errorf("%g to %g in %d steps: no error", bad.From, bad.To, bad.Steps)
		}
	}
}
