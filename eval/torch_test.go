package eval

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/lab/golden"
	"vsetrain/lab/try"
)

// The scores PyTorch computed for the checkpoint fixtures, read from numpy's files, give the recalls of the
// references' sorting code. scripts/make_checkpoint_fixture.py writes the fixtures.
func TestRecallsOfPyTorchScores(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "testdata", "torch", "*", "expected.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures in testdata/torch: %v", err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			var want goldenMeasures
			b := try.Get(os.ReadFile(file))(t)
			try.Do(t, json.Unmarshal(b, &want))
			exact := try.Get(LoadScores(filepath.Join(dir, "scores.npy")))(t)
			want.check(t, exact, len(want.RT)/len(want.RI))
			single := try.Get(LoadScores(filepath.Join(dir, "scores_f32.npy")))(t)
			n, m := exact.Dims()
			a, c := make([]float64, n*m), make([]float64, n*m)
			exact.Tile(a, 0, n, 0, m)
			single.Tile(c, 0, n, 0, m)
			golden.Close(t, "float32 and float64 scores", c, a, golden.Tolerance{Abs: 1e-5})
		})
	}
}
