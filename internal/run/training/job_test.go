package training_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/devicetest"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/train"
)

// job trains a run with several ranks, which are goroutines, and returns their errors and the steps they came to. begin
// is called for each before it trains.
func job(t *testing.T, c *config.Config, dir string, n int, resume bool,
	begin func(rank int, r *training.Request, w *runtest.Watcher, stop func())) (errs []error, steps []int64) {
	t.Helper()
	errs, steps = make([]error, n), make([]int64, n)
	var one sync.Mutex // of begin
	devicetest.Ranks(n, func(world *devicetest.World) {
		rank, _ := world.Rank()
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		own, w := *c, &runtest.Watcher{}
		r := runtest.Request(&own, dir, w)
		r.Resume, r.World = resume, world
		one.Lock()
		if begin != nil {
			begin(rank, &r, w, stop)
		}
		one.Unlock()
		out, err := training.Train(ctx, r)
		errs[rank], steps[rank] = err, out.Position.Step
		if rank > 0 && len(w.Steps)+len(w.Validations) > 0 {
			t.Errorf("rank %d tells of %d steps and %d validations", rank, len(w.Steps), len(w.Validations))
		}
	})
	return errs, steps
}

// A run of three ranks ends with the weights of a run of one, also when one rank was told to stop on the way and two
// went on. Labels that a loss remembers are the labels of all captions.
func TestRanksTrainARun(t *testing.T) {
	c := runtest.TinyConfig()
	c.Device.Precision, c.Loss.Name, c.Loss.WarmupEpochs, c.Optim.EMA = "fp64", "crcl", 1, 0.9
	c.Optim.Eps = 1e-4 // what is 0 but for rounding moves no weight
	want := runtest.Train(t, c)
	whole := filepath.Join(t.TempDir(), "whole")
	errs, _ := job(t, c, whole, 3, false, nil)
	try.Do(t, errors.Join(errs...))
	near(t, whole, want)

	parts := filepath.Join(t.TempDir(), "parts")
	errs, steps := job(t, c, parts, 3, false, func(rank int, r *training.Request, w *runtest.Watcher, stop func()) {
		if rank == 0 {
			return
		}
		calls := 0
		now := r.Now
		r.Now = func() time.Time { // several times a step
			if calls++; calls == 20 && rank == 2 {
				stop()
			}
			return now()
		}
	})
	for rank, err := range errs {
		if !errors.Is(err, train.ErrInterrupted) || steps[rank] != steps[0] || steps[0] < 2 || steps[0] > 20 {
			t.Fatalf("rank %d, interrupted: %v after step %d", rank, err, steps[rank])
		}
	}
	if errs, _ = job(t, c, parts, 2, true, nil); errors.Join(errs...) != nil {
		t.Fatal(errors.Join(errs...))
	}
	near(t, parts, want)
}

// near compares the last checkpoints of two runs.
func near(t *testing.T, got, want string) {
	t.Helper()
	a := runtest.OpenTensors(t, runtest.Checkpoint(got, runfs.LastName))
	b := runtest.OpenTensors(t, runtest.Checkpoint(want, runfs.LastName))
	names := b.Names()
	for _, name := range names {
		if off := runtest.Worst(values(t, a, name), values(t, b, name)); !(off <= 1e-6) {
			t.Errorf("%s is off by %v", name, off)
		}
	}
	if len(names) < 20 {
		t.Errorf("%s has the tensors %q", want, names)
	}
}

// values reads a tensor of float32 or float64.
func values(t *testing.T, f *safetensors.File, name string) (x []float64) {
	t.Helper()
	tensor, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	for at := 0; at < len(tensor.Data); {
		if tensor.DType == "F64" {
			x = append(x, math.Float64frombits(binary.LittleEndian.Uint64(tensor.Data[at:])))
			at += 8
		} else {
			x = append(x, float64(math.Float32frombits(binary.LittleEndian.Uint32(tensor.Data[at:]))))
			at += 4
		}
	}
	return x
}

// Fewer pairs than ranks are refused, before a step is done.
func TestTooFewPairsForRanks(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Batch, c.Loss.Name = 66, loss.LMH // of 200 captions two are left
	errs, _ := job(t, c, t.TempDir(), 3, false, nil)
	for _, err := range errs {
		try.Fails(t, err, "2 pairs, fewer than the 3 ranks", "train.drop_last")
	}
}
