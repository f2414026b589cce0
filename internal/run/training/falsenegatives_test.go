package training_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/internal/run/records"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
)

// Every logged step says how many hard negatives are false ones, under LSEH, and under LMH where the data set has
// semantic vectors; without them nothing is said.
func TestFalseNegativesOfSteps(t *testing.T) {
	for _, c := range []struct {
		loss    string
		vectors bool
	}{{loss.LSEH, true}, {loss.LMH, true}, {loss.LMH, false}} {
		cfg := runtest.TinyConfig()
		cfg.Loss.Name, cfg.Train.Epochs = c.loss, 1
		if !c.vectors {
			cfg.Data.Dir = runtest.CopyWorld(t)
			try.Do(t, os.Remove(filepath.Join(cfg.Data.Dir, "train_svd.npy")))
		}
		dir := runtest.Train(t, cfg)
		lines, hard := 0, 0.0
		text := try.Get(os.ReadFile(filepath.Join(dir, "metrics.jsonl")))(t)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, `"kind":"train"`) {
				continue
			}
			var r records.StepRecord
			try.Do(t, json.Unmarshal([]byte(line), &r))
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

// Cosines do not depend on the lengths of the vectors.
func TestFalseNegativesByCosines(t *testing.T) {
	falseOnes := func(scale func(row int) float32) (all []float64) {
		cfg := runtest.TinyConfig()
		cfg.Data.Dir = runtest.CopyWorld(t)
		cfg.Loss.Name, cfg.Loss.LSEH.Similarity, cfg.Train.Epochs = loss.LMH, "cosine", 1
		path := filepath.Join(cfg.Data.Dir, "train_svd.npy")
		f := try.Get(npy.Open(path))(t)
		n, dim := f.Shape[0], f.Shape[1]
		x := make([]float32, n*dim)
		for i := range n {
			try.Do(t, f.ReadRow(x[i*dim:(i+1)*dim], i))
			for k := range dim {
				x[i*dim+k] *= scale(i)
			}
		}
		f.Close()
		w := try.Get(npy.Create(path, npy.F32, []int{n, dim}))(t)
		try.Do(t, w.WriteFloat32(x))
		try.Do(t, w.Close())
		text := try.Get(os.ReadFile(filepath.Join(runtest.Train(t, cfg), "metrics.jsonl")))(t)
		for line := range strings.Lines(string(text)) {
			var r records.StepRecord
			if try.Do(t, json.Unmarshal([]byte(line), &r)); r.AllFalse != nil {
				all = append(all, *r.AllFalse)
			}
		}
		return all
	}
	one := falseOnes(func(int) float32 { return 1 })
	scaled := falseOnes(func(row int) float32 { return float32(int(1) << (row % 3)) })
	if len(one) == 0 || !slices.Equal(one, scaled) {
		t.Errorf("false negatives %v, with other lengths of the vectors %v", one, scaled)
	}
}
