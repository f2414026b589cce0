package bench

import (
	"testing"

	"vsetrain/internal/compute/device/cuda/model"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// tableOf is the profile of a tiny network.
func tableOf(t *testing.T, gpu string, measured bool) (*model.Table, error) {
	t.Helper()
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.VSEPP)
	c.Device.Kind, c.Data.Dir = "cuda", ""
	c.Train.Batch, c.Model.EmbedDim, c.Model.WordDim = 4, 8, 4
	return Profile(t.Context(), Request{Config: c, Model: gpu, Regions: 3, Feature: 16, Vocab: 50}, measured)
}

// A step is predicted without a GPU, and measured where there is one: the same kernels, as often, with the same cost.
func TestProfile(t *testing.T) {
	t.Setenv("VSETRAIN_CUDA_DRIVER", "/nowhere/libcuda.so.1")
	predicted := try.Get(tableOf(t, "h200", false))(t)
	if s := predicted.Sum; s.Calls < 40 || !(s.Bytes > 0 && s.Flop > 0 && s.Predicted > 0) || s.Measured != 0 {
		t.Errorf("predicted: %+v", s)
	}
	runtest.OnEmulator(t, true)
	measured := try.Get(tableOf(t, "h200", true))(t)
	if len(measured.Lines) != len(predicted.Lines) {
		t.Errorf("%d lines, predicted %d", len(measured.Lines), len(predicted.Lines))
	}
	at := map[string]model.Line{}
	for _, l := range predicted.Lines {
		at[l.Name] = l
	}
	for _, l := range measured.Lines {
		p := at[l.Name]
		if l.Calls != p.Calls || l.Bytes != p.Bytes || l.Predicted != p.Predicted || !(l.Measured > 0) {
			t.Errorf("measured %+v, predicted %+v", l, p)
		}
	}
}

func TestProfileErrors(t *testing.T) {
	runtest.OnEmulator(t, true)
	const says = "name one that is like it with --model: a100"
	try.Refuses(tableOf(t, "", true))(t, says)
	try.Refuses(tableOf(t, "h300", false))(t, `"h300"`)
}

// A GPU is told by the name that its driver gives it.
func TestModelOf(t *testing.T) {
	for device, want := range map[string]string{
		"cuda, NVIDIA H200, 139 GB":            "H200 SXM",
		"cuda, NVIDIA GeForce RTX 4090, 24 GB": "GeForce RTX 4090",
		"cuda, NVIDIA A100-SXM4-80GB, 79 GB":   "A100 SXM 80 GB",
	} {
		if g, err := modelOf("", device); err != nil || g.Name != want {
			t.Errorf("%s: %q, %v", device, g.Name, err)
		}
	}
}
