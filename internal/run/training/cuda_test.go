package training_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device"
	"vsetrain/lab/emulator"
	"vsetrain/lab/runtest"
)

// A run with device.kind cuda on the emulated driver: configuration, data, training, validation and checkpoints, with
// the losses and recalls of the CPU.
func TestTrainOnEmulatedGPU(t *testing.T) {
	path := emulator.Library(t)
	t.Setenv("VSETRAIN_CUDA_DRIVER", path)
	t.Setenv("VSETRAIN_CUBLAS", path)
	run := func(kind string) (losses, rsums []float64) {
		c := runtest.TinyConfig()
		c.Device.Kind, c.Train.MaxSteps = kind, 10
		w := runtest.Watch(t, c)
		losses = w.Losses
		for _, v := range w.Validations {
			rsums = append(rsums, v.Score)
		}
		return losses, rsums
	}
	onCPU, wantScores := run("cpu")
	onGPU, scores := run("cuda")
	if len(onCPU) != 10 || len(onGPU) != 10 || len(scores) != len(wantScores) || len(scores) == 0 {
		t.Fatalf("%d and %d steps, %d and %d validations", len(onCPU), len(onGPU), len(wantScores), len(scores))
	}
	for i, want := range onCPU {
		if !(math.Abs(onGPU[i]-want) <= 1e-4*want) {
			t.Errorf("loss of step %d is %v, %v on the CPU", i, onGPU[i], want)
		}
	}
	for i, want := range wantScores {
		if !(math.Abs(scores[i]-want) <= 2) { // ties may fall the other way
			t.Errorf("score of validation %d is %v, %v on the CPU", i, scores[i], want)
		}
	}
}

// The precision that auto picks on a GPU learns what fp32 learns: both come to the same recalls.
func TestAutoPrecisionLearnsTheSame(t *testing.T) {
	path := emulator.Library(t)
	t.Setenv("VSETRAIN_CUDA_DRIVER", path)
	t.Setenv("VSETRAIN_CUBLAS", path)
	run := func(precision, picked string) (losses []float64, recall float64) {
		c := runtest.TinyConfig()
		c.Device.Kind, c.Device.Precision = "cuda", precision
		c.Train.Overfit, c.Train.Epochs, c.Train.MaxSteps, c.Train.ValStep, c.Optim.LRUpdate = 2, 99, 30, 30, 99
		w := runtest.Watch(t, c)
		losses = w.Losses
		if !strings.HasSuffix(w.Plan.Device, picked) || c.Device.Precision != precision {
			t.Errorf("%s: %s, expected %s; the options say %s now", precision, w.Plan.Device, picked,
				c.Device.Precision)
		}
		return losses, w.Validations[len(w.Validations)-1].Metrics.MRecall
	}
	single, want := run("fp32", "fp32")
	picked, got := run(device.PrecisionAuto, "bf16")
	if slices.Equal(single, picked) {
		t.Error("the losses are the same bits: auto did not round")
	}
	t.Logf("M-Recall %.2f, %.2f in fp32", got, want)
	const learned, points = 70, 4
	if math.Abs(got-want) > points || !(want > learned) {
		t.Errorf("M-Recall %.2f, %.2f in fp32; expected at most %d points between them, and more than %d", got, want,
			points, learned)
	}
}
