package training_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/internal/house/try"
	"vsetrain/internal/run/records"
	"vsetrain/internal/run/runtest"
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
