package training_test

import (
	"context"
	"path/filepath"
	"testing"

	"vsetrain/data/synth"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/evaluate"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/semantic"
)

// gsmnConfig trains a small GSMN.
func gsmnConfig(dir, lossName string, epochs int) *config.Config {
	c := config.Default()
	c.Data.Dir = dir
	c.Model.Network, c.Model.TextEncoder, c.Model.EmbedDim, c.Model.WordDim = models.GSMN, "bigru", 64, 32
	c.Model.GSMN.Lambda = 10
	c.Loss.Name = lossName
	c.Optim.LR = 3e-3
	c.Train.Epochs, c.Train.Batch, c.Train.ValStep = epochs, 32, 1000
	c.Device.Threads = 2
	return &c
}

// gsmnWorld is a synthetic data set of 112 images with boxes, sizes and dependencies.
func gsmnWorld(t *testing.T) string {
	t.Helper()
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 112, 12, 12, 4, 32
	dir := worldOf(t, o)
	s := semantic.DefaultOptions()
	s.K = 16
	try.Get(semantic.Precompute(context.Background(), filepath.Join(dir, "train_caps.txt"),
		filepath.Join(dir, "train_svd.npy"), s, nil))(t)
	return dir
}

// recall trains and returns the run and the M-Recall on the training images; chance is 6 for 112 images.
func (r gsmnRun) recall(t *testing.T, c *config.Config) (run string, score float64) {
	t.Helper()
	run = runtest.Train(t, c)
	rep := try.Get(evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{filepath.Join(run, "checkpoints",
		runfs.LastName)},
		Data: r.dir, Split: "train", Protocol: eval.Whole,
		Device: device.Options{Kind: "auto", Precision: "fp32", Threads: 2}}))(t)
	return run, rep.Results[0].Metrics.MRecall
}

type gsmnRun struct{ dir string }

// The sum over all violations teaches GSMN a small world by heart, with its own vectors and with its neighbours', and
// the other losses continue from there: they see the scores only.
func TestGSMNLearnsWithEveryLoss(t *testing.T) {
	r := gsmnRun{gsmnWorld(t)}
	first, before := r.recall(t, gsmnConfig(r.dir, loss.LSH, 4))
	if before < 30 {
		t.Fatalf("M-Recall %.1f after four epochs of LSH", before)
	}
	for _, name := range []string{loss.LMH, loss.LSEH, loss.LUWM} {
		c := gsmnConfig(r.dir, name, 1)
		c.Train.InitFrom, c.Optim.LR = filepath.Join(first, "checkpoints", runfs.LastName), 1e-3
		if _, after := r.recall(t, c); after < before+5 {
			t.Errorf("%s: M-Recall went from %.1f to %.1f", name, before, after)
		}
	}
	c := gsmnConfig(r.dir, loss.LSH, 4)
	c.Model.GSMN.Neighbors = "true"
	if _, score := r.recall(t, c); score < 30 {
		t.Errorf("M-Recall %.1f with neighbours", score)
	}
}

// A validation says how many of its pairs are scored: with a network that looks at pairs they take far longer than
// encoding.
func TestValidationReportsPairs(t *testing.T) {
	w := runtest.Watch(t, gsmnConfig(gsmnWorld(t), loss.LSH, 1))
	if pairs := 12 * 60; w.Scored != [2]int{pairs, pairs} {
		t.Errorf("the last report is %d of %d pairs, want %d of as many", w.Scored[0], w.Scored[1], pairs)
	}
}
