package training_test

import (
	"testing"

	"vsetrain/lab/runtest"
)

// VSE++ learns two batches by heart: every pair ranks first in its batch, where a run on all captions is far from it.
func TestOverfit(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Overfit, c.Train.Epochs, c.Train.ValStep, c.Optim.LRUpdate, c.Optim.LR = 2, 12, 0, 0, 1e-2
	c.Model.EmbedDim, c.Loss.Name = 32, "lsh"
	w := runtest.Watch(t, c)
	first, last := w.Validations[0], w.Validations[len(w.Validations)-1]
	from, to := first.Metrics.MRecall, last.Metrics.MRecall
	if to < 95 || last.Metrics.Protocol != "batches" || from >= to {
		t.Errorf("M-Recall of the batches went from %.1f to %.1f", from, to)
	}
	if len(w.Validations) != 12 || len(w.Steps) != 12*13 {
		t.Errorf("%d validations and %d steps: epochs have other lengths", len(w.Validations), len(w.Steps))
	}
	c.Train.Overfit = 14
	runtest.Refuses(t, c, "train.overfit is 14, but an epoch has 13 batches of 16 captions")
}
