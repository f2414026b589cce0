package analysis_test

import (
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/data/synth"
	"vsetrain/internal/run/analysis"
	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

// Of captions of which 40 % have another image, those that a small VSE++ suspects are the wrong ones: the area under
// the ROC curve, of all pairs of a wrong and a right caption the share that is in the right order.
func TestSuspectsAreWrongCaptions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "world")
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 3000, 60, 10, 12, 256
	try.Do(t, synth.Generate(dir, o, nil))
	index := data.NoisyCaptions(data.EqualGroups(o.Train, 5), 0.4, 1)
	c := runtest.TinyConfig()
	c.Data.Dir, c.Data.NoiseIndex = dir, filepath.Join(t.TempDir(), "noise.npy")
	try.Do(t, data.WriteNoise(c.Data.NoiseIndex, index))
	c.Loss.Name, c.Model.EmbedDim, c.Model.WordDim = "rcl", 128, 64
	c.Optim.LR, c.Optim.LRUpdate = 2e-3, 15
	c.Train.Epochs, c.Train.Batch, c.Train.ValStep, c.Train.LogStep = 5, 64, 0, 0
	run := runtest.Train(t, c)
	list := try.Get(analysis.Suspects(t.Context(), pretrained.AnalysisRequest{Device: c.Device}, run, nil))(t)
	right, order, pairs := 0, 0, 0
	seen := make([]bool, len(index))
	for _, s := range slices.Backward(list) {
		seen[s.Caption] = true
		if index[s.Caption] == int64(s.Caption/5) {
			right++
		} else {
			order += right
		}
	}
	pairs = right * (len(index) - right)
	auroc := float64(order) / float64(pairs)
	t.Logf("AUROC %.4f", auroc)
	if auroc < 0.95 || slices.Contains(seen, false) {
		t.Errorf("AUROC %.4f, expected at least 0.95; all captions are listed: %t", auroc,
			!slices.Contains(seen, false))
	}
}
