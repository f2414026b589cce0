package training_test

import (
	"errors"
	"math"
	"path/filepath"
	"testing"

	"vsetrain/lab/emulator"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// A run in micro-batches, which reads the features of each by itself, is the run of whole batches: regions that are
// dropped, dropout, running statistics and incomplete batches included.
func TestMicroBatchesTrainTheSameRun(t *testing.T) {
	for _, network := range []string{"vseinf", "saf", "chan"} {
		microBatchesTrainTheSameRun(t, network)
	}
}

func microBatchesTrainTheSameRun(t *testing.T, network string) {
	losses := func(micro int) []float64 {
		c := runtest.TinyConfig()
		c.Model.Network, c.Model.TextEncoder, c.Device.Precision = network, "bigru", "fp64"
		c.Model.CHAN.Heads, c.Optim.Eps = 2, 1e-4 // what is 0 but for rounding moves no weight
		c.Train.MicroBatch = micro
		w := runtest.Watch(t, c)
		if bytes := w.Plan.MicroBytes; (bytes > 0) != (micro > 0) {
			t.Errorf("%s: with train.micro_batch %d a step takes %d bytes", network, micro, bytes)
		}
		return w.Losses
	}
	want := losses(0)
	for i, v := range losses(5) {
		if !(math.Abs(v-want[i]) <= 1e-7*want[i]) {
			t.Fatalf("%s, step %d: loss %.12g, %.12g of whole batches", network, i, v, want[i])
		}
	}
}

// Ranks compute their parts of a batch in micro-batches: the run is that of one process.
func TestMicroBatchesOfRanks(t *testing.T) {
	for _, network := range []string{"vseinf", "saf"} {
		c := runtest.TinyConfig()
		c.Model.Network, c.Model.TextEncoder, c.Device.Precision = network, "bigru", "fp64"
		c.Train.Epochs, c.Optim.Eps = 1, 1e-4 // what is 0 but for rounding moves no weight
		want := runtest.Train(t, c)
		c.Train.MicroBatch = 3
		dir := filepath.Join(t.TempDir(), "run")
		errs, _ := job(t, c, dir, 2, false, nil)
		try.Do(t, errors.Join(errs...))
		near(t, dir, want)
	}
}

// A run in micro-batches on the emulated GPU is that of the CPU, whether features stay on the GPU or are streamed, and
// whichever stream is quicker.
func TestMicroBatchesOnAGPU(t *testing.T) {
	for _, network := range []string{"vseinf", "sgr"} {
		t.Run(network, func(t *testing.T) { microBatchesOnAGPU(t, network) })
	}
}

func microBatchesOnAGPU(t *testing.T, network string) {
	c := runtest.TinyConfig()
	c.Model.Network, c.Model.TextEncoder, c.Train.MicroBatch, c.Train.MaxSteps = network, "bigru", 5, 2
	run := func() []float64 {
		w := runtest.Watch(t, c)
		if bytes := w.Plan.MicroBytes; bytes == 0 {
			t.Errorf("steps take no memory for micro-batches")
		}
		if m := w.Plan.Memory; m != nil && m.CallByCall != "train.micro_batch divides the batch" {
			t.Errorf("call by call: %q", m.CallByCall)
		}
		return w.Losses
	}
	want := run()
	runtest.OnEmulator(t, true)
	c.Device.Kind = "cuda"
	for i, resident := range []string{"always", "never"} {
		c.Device.Resident = resident
		emulator.Set(t, "defer", 1+i, 0)
		got := run()
		for i, v := range want {
			if len(got) != len(want) || !(math.Abs(got[i]-v) <= 1e-4*v) {
				t.Fatalf("device.resident %s: losses %v, on the CPU %v", resident, got, want)
			}
		}
	}
}
