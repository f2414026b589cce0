package train

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/compute/philox"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// manyRegions is for images of up to six regions.
var manyRegions = models.Dims{Regions: 6, Feature: tinyFeature, Vocab: tinyVocab}

// vseinfStep is a tiny VSE-infinity with AdamW.
func vseinfStep(t testing.TB, dev device.Device) *Step {
	t.Helper()
	o := models.DefaultOptions()
	o.Network, o.TextEncoder, o.EmbedDim, o.WordDim = models.VSEInf, "bigru", 8, 4
	return newStep(t, dev, o, manyRegions, loss.LMH, adamw(1e-2))
}

// vseinfBatch makes n pairs with captions of 2 to longest words, <mask> among them, and images of 1 to 6 regions.
func vseinfBatch(seed uint64, n, longest int) *data.Batch {
	b := tinyBatch(seed, n, longest)
	r := philox.NewKey(seed, "test regions").Stream(0)
	b.Features = nil
	for range n {
		c := 1 + r.IntN(6)
		b.Counts = append(b.Counts, int32(c))
		for range c * tinyFeature {
			b.Features = append(b.Features, float32(r.Float64()))
		}
	}
	b.Words[0][0] = tinyVocab
	return b
}

// The loss falls, an unused parameter stays as it is, and nothing is allocated.
func TestVSEInfTrains(t *testing.T) {
	for _, precision := range []string{cpu.FP32, cpu.BF16, cpu.FP64} {
		t.Run(precision, func(t *testing.T) {
			s := vseinfStep(t, newDevice(t, precision))
			a, b := vseinfBatch(1, 6, 12), vseinfBatch(2, 4, 5)
			unused := s.model.Instance.Params.Value("img.mlp.bns.1.weight")
			before := doubles(s.model.Instance.Dev, unused)
			first := run(t, s, a).Loss
			for range 40 {
				run(t, s, a)
				run(t, s, b)
			}
			if last := run(t, s, a).Loss; !(last < first/2) {
				t.Errorf("the loss went from %v to %v in 40 steps", first, last)
			}
			if doubles(s.model.Instance.Dev, s.model.Instance.Params.Value("img.mlp.bns.0.running_mean"))[0] == 0 {
				t.Error("training leaves the running statistics as they were")
			}
			if !slices.Equal(doubles(s.model.Instance.Dev, unused), before) {
				t.Error("weight decay changed a parameter without a gradient")
			}
			if n := testing.AllocsPerRun(10, func() { run(t, s, a); run(t, s, b) }); n != 0 {
				t.Errorf("%v allocations in two steps", n)
			}
		})
	}
}

func TestVSEInfDoesNotDependOnThreads(t *testing.T) {
	for _, precision := range []string{cpu.FP32, cpu.BF16} {
		var want []float64
		for _, threads := range []int{1, 2, 5} {
			s := vseinfStep(t, openCPU(t, cpu.Options{Threads: threads, Precision: precision}))
			for i := range uint64(3) {
				run(t, s, vseinfBatch(i, 30, 14))
			}
			got := allNumbers(s)
			if want == nil {
				want = got
			}
			if i := differ(got, want); i >= 0 {
				t.Errorf("%s: %d threads give another number %d than one", precision, threads, i)
			}
		}
	}
}

// A run that is resumed from its checkpoint, running statistics included, ends with the bits of one that was not.
func TestVSEInfResumesExactly(t *testing.T) {
	whole := vseinfStep(t, newDevice(t, cpu.FP32))
	run(t, whole, vseinfBatch(1, 6, 12))
	var file bytes.Buffer
	try.Do(t, whole.WriteState(&file, models.Info{}, &State{Seed: 1, Position: Position{Step: 1}}))
	path := filepath.Join(t.TempDir(), "last.safetensors")
	try.Do(t, os.WriteFile(path, file.Bytes(), 0o644))
	c := try.Get(models.OpenCheckpoint(path))(t)
	defer c.Close()
	resumed := vseinfStep(t, newDevice(t, cpu.FP32))
	try.Do(t, resumed.RestoreState(c, &State{}))
	for _, s := range []*Step{whole, resumed} {
		run(t, s, vseinfBatch(2, 5, 9))
	}
	if i := differ(allNumbers(whole), allNumbers(resumed)); i >= 0 {
		t.Errorf("number %d differs after resuming", i)
	}
}
