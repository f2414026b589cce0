package bench

import (
	"strings"
	"testing"
	"time"

	"vsetrain/internal/run/config"
	"vsetrain/lab/emulator"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// benchGPU times two steps on the emulated driver and returns the report and the bytes that were sent with a step.
func benchGPU(t *testing.T, c *config.Config, stream bool) (rep Report, sent int) {
	t.Helper()
	c.Device.Kind, c.Data.Dir = "cuda", ""
	before, after := 0, 0
	rep = try.Get(Run(t.Context(), Request{Config: c, Steps: 2, Stream: stream, Regions: 3, Feature: 256,
		Vocab: 50, Now: time.Now,
		Progress: func(done, total int) {
			switch done {
			case total - 2:
				before = emulator.Uploaded(t)
			case total:
				after = emulator.Uploaded(t)
			}
		}}))(t)
	return rep, (after - before) / 2
}

// A benchmark keeps the features on the GPU as training does, or streams them, and does the same steps either way;
// every timed step is a replay.
func TestBenchKeepsFeatures(t *testing.T) {
	runtest.OnEmulator(t, true)
	for _, network := range []string{models.VSEPP, models.VSEInf} {
		c := runtest.TinyConfig()
		runtest.SetNetwork(c, network)
		c.Train.Batch, c.Model.EmbedDim, c.Model.WordDim = 4, 8, 4 // the emulated driver is slow
		if network == models.VSEInf {
			c.Train.Batch = 2
		}
		features := 4 * c.Train.Batch * 3 * 256
		resident, few := benchGPU(t, c, false)
		streamed, many := benchGPU(t, c, true)
		if resident.Features != "resident" || streamed.Features != "streamed" || few > features/4 || many < features/4 {
			t.Errorf("%s: features %s, %d bytes a step; with Stream %s, %d bytes; features are %d bytes", network,
				resident.Features, few, streamed.Features, many, features)
		}
		if resident.LastLoss != streamed.LastLoss || !(resident.LastLoss > 0) {
			t.Errorf("%s: loss %v, streamed %v", network, resident.LastLoss, streamed.LastLoss)
		}
		if resident.Recorded == 0 || resident.Replayed < resident.Steps || resident.GPUMemory.CallByCall != "" {
			t.Errorf("%s: %d recorded, %d replays, %q", network, resident.Recorded, resident.Replayed,
				resident.GPUMemory.CallByCall)
		}
		if s := resident.StepMS; !(s.Min > 0 && s.Min <= s.Median && s.Median <= s.Max && s.Mean > 0) ||
			resident.Warmup != 8 {
			t.Errorf("%s: %+v after %d steps", network, s, resident.Warmup)
		}
	}
}

// Steps that could not be recorded are reported, wherever recording fails.
func TestBenchSaysThatRecordingFailed(t *testing.T) {
	runtest.OnEmulator(t, true)
	for _, at := range []int{1, 2, 3} {
		emulator.Set(t, "no_capture", at, 0)
		c := runtest.TinyConfig()
		c.Train.Batch, c.Model.EmbedDim, c.Model.WordDim = 2, 8, 4
		rep, _ := benchGPU(t, c, false)
		if rep.Recorded != 0 || rep.Replayed != 0 || !strings.Contains(rep.GPUMemory.CallByCall, "CUDA_ERROR") {
			t.Errorf("no_capture %d: %d recorded, %d replays, %q", at, rep.Recorded, rep.Replayed,
				rep.GPUMemory.CallByCall)
		}
	}
}
