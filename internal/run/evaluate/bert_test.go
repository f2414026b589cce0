package evaluate

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/run/checkpoints"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// A checkpoint of VSE-infinity with BERT, its captions cut into word pieces here, gives the scores of PyTorch.
func TestBertGivesTheScoresOfPyTorch(t *testing.T) {
	exact, single := readScores(t, filepath.Join(runtest.BertFixture, "scores.npy")),
		readScores(t, filepath.Join(runtest.BertFixture, "scores_f32.npy"))
	for _, c := range []struct {
		precision string
		scores    []float64
		limit     float64
	}{{cpu.FP64, exact, 2e-7}, {cpu.FP32, exact, 5e-6}, {cpu.FP32, single, 5e-6}, {cpu.BF16, exact, 2e-2}} {
		_, scores := evaluate(t, runtest.BertFixture, c.precision, filepath.Join(runtest.BertFixture, "checkpoint.pth"))
		if d := runtest.Worst(scores, c.scores); !(d <= c.limit) {
			t.Errorf("%s: largest difference of a score %g, want at most %g", c.precision, d, c.limit)
		}
	}
}

// Import and export keep every tensor, and the export has the names that the reference's loader wants.
func TestBertImportAndExport(t *testing.T) {
	source, dir := filepath.Join(runtest.BertFixture, "checkpoint.pth"), t.TempDir()
	ours, back := filepath.Join(dir, "ours.safetensors"), filepath.Join(dir, "back.pth")
	try.Get(checkpoints.Import(checkpoints.Source{Checkpoint: source,
		Vocab: filepath.Join(runtest.BertFixture, "data", "vocab.txt")}, ours))(t)
	try.Get(checkpoints.Export(checkpoints.Source{Checkpoint: ours}, back, true))(t)
	want, _, _ := tensorsOf(t, source)
	got, _, _ := tensorsOf(t, back)
	for i := range want {
		if len(got[i]) != len(want[i]) || len(want[i]) < 10 {
			t.Errorf("state dict %d has %d tensors, want %d", i, len(got[i]), len(want[i]))
		}
		for name, v := range want[i] {
			if !strings.HasPrefix(name, "module.") || !slices.Equal(got[i][name], v) {
				t.Errorf("state dict %d: tensor %s changed", i, name)
			}
		}
	}
	a := try.Get(models.OpenReference(source, nil))(t)
	b := try.Get(models.OpenReference(back, nil))(t)
	if o := a.Network(); o != b.Network() || a.Sizes() != b.Sizes() || o.Bert.Heads != 3 || o.Bert.Layers != 2 ||
		o.Bert.Hidden != 12 || o.Bert.Intermediate != 20 || o.Bert.Positions != 40 {
		t.Errorf("read as %+v, back as %+v", a.Network(), b.Network())
	}
	if _, err := checkpoints.Import(checkpoints.Source{Checkpoint: source,
		Vocab: filepath.Join(runtest.Fixture, "data", "vocab.json")}, ours); err == nil {
		t.Error("a vocabulary of words was accepted for word pieces")
	}
}
