package checkpoints

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/evaluate"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// The mean of three checkpoints is the mean of each of their tensors, running statistics included; it restores, and
// checkpoints of other networks or vocabularies are refused.
func TestAverageCheckpoints(t *testing.T) {
	train := func(change func(*config.Config)) string {
		c := runtest.TinyConfig()
		c.Train.MaxSteps, c.Model.Network, c.Train.LogStep = 1, "vsrn", 0
		change(c)
		return runtest.Train(t, c)
	}
	a := train(func(*config.Config) {})
	b := train(func(c *config.Config) { c.Seed = 8 })
	d := train(func(c *config.Config) { c.Seed = 9 })
	out := filepath.Join(t.TempDir(), "mean.safetensors")
	_, network, err := Average(AverageRequest{Checkpoints: []string{a, b, d}, Out: out})
	if err != nil || network != "vsrn" {
		t.Fatal(network, err)
	}
	read := func(path string) map[string][]float32 {
		f := try.Get(safetensors.Open(path))(t)
		defer f.Close()
		all := map[string][]float32{}
		for _, name := range f.Names() {
			x, _ := f.Tensor(name)
			all[name] = make([]float32, x.Len())
			try.Do(t, f.Float32s(name, all[name]))
		}
		return all
	}
	mean, parts := read(out), []map[string][]float32{}
	for _, dir := range []string{a, b, d} {
		parts = append(parts, read(runtest.Checkpoint(dir, runfs.BestName)))
	}
	running := 0
	for name, values := range mean {
		for i, v := range values {
			want := 0.0
			for _, p := range parts {
				want += float64(p[name][i])
			}
			if want /= 3; math.Abs(float64(v)-want) > 1e-7*(1+math.Abs(want)) {
				t.Fatalf("%s[%d] is %v, want %v", name, i, v, want)
			}
		}
		if strings.Contains(name, "running_") {
			running++
		}
	}
	if len(mean) != len(parts[0]) || running == 0 {
		t.Errorf("%d tensors, %d of them running statistics, want %d", len(mean), running, len(parts[0]))
	}
	try.Get(evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{out}, Data: runtest.World,
		Split: "test", Batch: 8,
		Vocab: filepath.Join(runtest.World, "vocab.json"), Device: runtest.TinyConfig().Device}))(t)
	other := train(func(c *config.Config) { c.Model.EmbedDim = 32 })
	_, _, err = Average(AverageRequest{Checkpoints: []string{a, other}, Out: out, Force: true})
	try.Fails(t, err, "model.embed_dim was 16, is 32; only checkpoints of one network")
}
