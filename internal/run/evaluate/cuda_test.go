package evaluate

import (
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/lab/emulator"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// SGR evaluated with device.kind cuda on the emulated driver, tile by tile, with the scores of the CPU.
func TestEvalPairsOnEmulatedGPU(t *testing.T) {
	path := emulator.Library(t)
	t.Setenv("VSETRAIN_CUDA_DRIVER", path)
	t.Setenv("VSETRAIN_CUBLAS", path)
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.SGR)
	c.Device.Kind, c.Model.SGRAF.Steps, c.Train.Epochs, c.Train.MaxSteps = "cpu", 2, 1, 2
	r := Request{Checkpoints: []string{runtest.Train(t, c)}, Split: "dev", Data: runtest.World, Protocol: eval.Auto,
		Device: device.DefaultOptions()}
	r.Device.Kind = "cpu"
	_, want := evaluateWith(t, r)
	r.Device.Kind = "cuda"
	_, got := evaluateWith(t, r)
	if d := runtest.Worst(got, want); !(d <= 1e-5) || len(want) == 0 {
		t.Errorf("%d scores, %d on the CPU, the greatest difference is %g", len(got), len(want), d)
	}
}

// Checkpoints of PyTorch evaluated on the emulated GPU give the scores of PyTorch.
func TestScoresOfPyTorchOnEmulatedGPU(t *testing.T) {
	path := emulator.Library(t)
	t.Setenv("VSETRAIN_CUDA_DRIVER", path)
	t.Setenv("VSETRAIN_CUBLAS", path)
	for fixture, checkpoint := range map[string]string{runtest.BertFixture: "checkpoint.pth",
		runtest.FixtureOf("gsmn"): runtest.FixtureCheckpoints[0]} {
		want := readScores(t, filepath.Join(fixture, "scores.npy"))
		_, got := evaluateWith(t, Request{Checkpoints: []string{filepath.Join(fixture, checkpoint)},
			Data: filepath.Join(fixture, "data"), Split: "test",
			Protocol: eval.Auto, Device: device.Options{Kind: "cuda", Precision: "fp32"}})
		if d := runtest.Worst(got, want); !(d <= 5e-6) {
			t.Errorf("%s: largest difference of a score %g, want at most 5e-6", fixture, d)
		}
	}
}

// Pairs for whose usual tiles the GPU has no room are scored in smaller ones, to the same scores, with one warning; a
// GPU that holds not even the encoder is an error.
func TestEvalInSmallTiles(t *testing.T) {
	runtest.OnEmulator(t, true)
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.SGR)
	c.Device.Kind, c.Model.SGRAF.Steps, c.Train.Epochs, c.Train.MaxSteps = "cpu", 2, 1, 2
	r := Request{Checkpoints: []string{runtest.Train(t, c)}, Split: "dev", Data: runtest.World, Protocol: eval.Auto,
		Device: device.DefaultOptions()}
	r.Device.Kind = "cuda"
	_, want := evaluateWith(t, r)
	taken := runtest.TakenMemory(t)
	emulator.Set(t, "memory", taken+3<<20, 4<<30)
	var warnings []error
	r.Warn = func(err error) { warnings = append(warnings, err) }
	if _, got := evaluateWith(t, r); runtest.Worst(got, want) != 0 || len(got) == 0 {
		t.Errorf("scores differ by %g", runtest.Worst(got, want))
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "smaller tiles") {
		t.Errorf("warnings %v", warnings)
	}
	emulator.Set(t, "memory", taken+1<<20, 4<<30)
	try.Refuses(Run(t.Context(), r))(t, "the GPU is full", "lower train.batch (--batch), or end")
}
