package experiment

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/loss"
)

// By hand: three vectors with the inner products 4, 2, 1 / 2, 9, 0 / 1, 0, 1.0625.
func TestSimilarities(t *testing.T) {
	vectors := []float32{2, 0, 0, 1, 2, 2, 0.5, 0.5, -0.75}
	for i, want := range [][]float64{
		{1, 0.5, 0.25, 2.0 / 9, 1, 0, 1 / 1.0625, 0, 1},
		{1, 1.0 / 3, 0.5 / math.Sqrt(1.0625), 1.0 / 3, 1, 0, 0.5 / math.Sqrt(1.0625), 0, 1},
	} {
		got := similarities(vectors, 3, 3, i == 1)
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-12 {
				t.Errorf("cosine %v: [%d] is %v, want %v", i == 1, k, got[k], want[k])
			}
		}
	}
	if got := similarities(make([]float32, 4), 2, 2, true); slices.ContainsFunc(got, math.IsNaN) {
		t.Errorf("zero vectors: %v", got)
	}
}

// Every logged step says how many hard negatives are false ones, under LSEH, and under LMH where the data set has
// semantic vectors; without them nothing is said.
func TestFalseNegativesOfSteps(t *testing.T) {
	for _, c := range []struct {
		loss    string
		vectors bool
	}{{loss.LSEH, true}, {loss.LMH, true}, {loss.LMH, false}} {
		cfg := tinyConfig()
		cfg.Loss.Name, cfg.Train.Epochs = c.loss, 1
		if !c.vectors {
			cfg.Data.Dir = copyWorld(t)
			if err := os.Remove(filepath.Join(cfg.Data.Dir, "train_svd.npy")); err != nil {
				t.Fatal(err)
			}
		}
		dir := mustTrain(t, cfg)
		lines, hard := 0, 0.0
		text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, `"kind":"train"`) {
				continue
			}
			var r StepRecord
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			lines++
			if (r.HardFalse != nil) != c.vectors || (r.AllFalse != nil) != c.vectors {
				t.Fatalf("%+v: %s", c, line)
			}
			if c.vectors {
				hard += *r.HardFalse
				if *r.HardFalse < 0 || *r.HardFalse > 100 || *r.AllFalse < 0 || *r.AllFalse > 100 {
					t.Errorf("%+v: %s", c, line)
				}
			}
		}
		if lines != 13 || c.vectors && hard == 0 {
			t.Errorf("%+v: %d lines, %v false ones in sum", c, lines, hard)
		}
	}
}
