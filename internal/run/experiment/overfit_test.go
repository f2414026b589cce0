package experiment

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// VSE++ learns two batches by heart: every pair ranks first in its batch, where a run on all captions is far from it.
func TestOverfit(t *testing.T) {
	c := tinyConfig()
	c.Train.Overfit, c.Train.Epochs, c.Train.ValStep, c.Optim.LRUpdate, c.Optim.LR = 2, 12, 0, 0, 1e-2
	c.Model.EmbedDim, c.Loss.Name = 32, "lsh"
	w := &watcher{}
	if _, err := Train(t.Context(), request(c, filepath.Join(t.TempDir(), "run"), w)); err != nil {
		t.Fatal(err)
	}
	first, last := w.validations[0], w.validations[len(w.validations)-1]
	from, to := first.Metrics.MRecall, last.Metrics.MRecall
	if to < 95 || last.Metrics.Protocol != "batches" || from >= to {
		t.Errorf("M-Recall of the batches went from %.1f to %.1f", from, to)
	}
	if len(w.validations) != 12 || len(w.steps) != 12*13 {
		t.Errorf("%d validations and %d steps: epochs have other lengths", len(w.validations), len(w.steps))
	}
	c.Train.Overfit = 14
	_, err := Train(t.Context(), request(c, filepath.Join(t.TempDir(), "run"), &watcher{}))
	if err == nil || !strings.Contains(err.Error(), "train.overfit is 14, but an epoch has 13 batches of 16 captions") {
		t.Errorf("more batches than there are: %v", err)
	}
}

// By hand, of three pairs, the first two of one image.
func TestBatchRanks(t *testing.T) {
	scores := []float64{
		0.5, 0.9, 0.5,
		0.1, 0.6, 0.2,
		0.7, 0.1, 0.4}
	i2t, t2i := batchRanks(scores, 3, func(i, j int) bool { return i < 2 && j < 2 })
	if !slices.Equal(i2t, []int{1, 0, 1}) || !slices.Equal(t2i, []int{1, 0, 1}) {
		t.Errorf("ranks %v and %v", i2t, t2i)
	}
}
