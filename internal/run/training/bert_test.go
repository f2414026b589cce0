package training_test

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/evaluate"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// bertConfig trains VSE-infinity with a tiny BERT, drawn at random, on pieces of the words of the synthetic world.
func bertConfig(t *testing.T) *config.Config {
	t.Helper()
	pieces := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	for r := 'a'; r <= 'z'; r++ {
		pieces = append(pieces, string(r), "##"+string(r))
	}
	known := map[string]bool{}
	f := try.Get(os.Open(filepath.Join(runtest.World, "train_caps.txt")))(t)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		for _, w := range strings.Fields(strings.ToLower(lines.Text())) {
			if w = strings.Trim(w, ".,;"); len(w) > 1 && !known[w] {
				known[w] = true
				pieces = append(pieces, w)
			}
		}
	}
	path := filepath.Join(t.TempDir(), "vocab.txt")
	try.Do(t, os.WriteFile(path, []byte(strings.Join(pieces, "\n")+"\n"), 0o600))
	c := runtest.TinyConfig()
	c.Data.Vocab, c.Model.Network, c.Model.TextEncoder = path, "vseinf", "bert"
	c.Model.Bert = models.BertOptions{Init: "random", Layers: 2, Hidden: 16, Heads: 2, Intermediate: 24, Positions: 24,
		Dropout: 0.1}
	c.Optim.Name, c.Optim.WeightDecay, c.Optim.BertLR = "adamw", 1e-4, 1
	c.Train.DropLast = true
	return c
}

// Training with BERT: dropout, word masking and region dropping included, a run that is interrupted ends as the
// uninterrupted one, and its checkpoint can be evaluated.
func TestBertResumeEqualsUninterrupted(t *testing.T) {
	c := bertConfig(t)
	whole := runtest.Train(t, c)
	dir := filepath.Join(t.TempDir(), "run")
	if n := interrupted(t, c, dir, 7, 1, 2, 3); n != 3 {
		t.Errorf("%d interruptions", n)
	}
	runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(whole, runfs.LastName))
	rep := try.Get(evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{dir}, Data: runtest.World,
		Split:    "test",
		Protocol: eval.Auto, Device: device.Options{Kind: "cpu", Threads: 2, Precision: "fp32"}}))(t)
	if rep.Captions != 60 || len(rep.Results) == 0 {
		t.Errorf("%+v", rep)
	}
}

// The loss falls, the pooler stays as drawn, and the parameters of BERT move at their own rate.
func TestBertLearns(t *testing.T) {
	c := bertConfig(t)
	c.Train.Epochs, c.Train.ValStep, c.Optim.LRUpdate, c.Model.VSEInf.SizeAugment = 12, 0, 0, false
	c.Loss.Name, c.Model.Bert.Dropout, c.Optim.LR = "lsh", 0, 3e-3
	w := runtest.Watch(t, c)
	run, losses := w.Plan.RunDir, w.Losses
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	if first, last := mean(losses[:12]), mean(losses[len(losses)-12:]); !(last < 0.5*first) {
		t.Errorf("the loss of the first epoch is %.3f, of the last %.3f", first, last)
	}
	moments := runtest.OpenTensors(t, runtest.Checkpoint(run, runfs.LastName))
	for name, trained := range map[string]bool{"txt.bert.pooler.dense.weight": false,
		"txt.bert.encoder.layer.1.attention.self.query.weight": true,
		"txt.bert.embeddings.word_embeddings.weight":           true, "txt.linear.weight": true} {
		x, ok := moments.Tensor("optim/m/" + name)
		if !ok || slices.ContainsFunc(x.Data, func(b byte) bool { return b != 0 }) != trained {
			t.Errorf("%s: found %v, trained is not %v", name, ok, trained)
		}
	}
}

// What is wrong with the folder of an encoder is said before the run begins.
func TestBertFolderMistakes(t *testing.T) {
	good := filepath.Join(runtest.BertFixture, "bert")
	empty := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(empty, "vocab.txt"), []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"), 0o600))
	sizes := models.BertOptions{Dir: good, Init: "pretrained", Layers: 2, Hidden: 12, Heads: 3, Intermediate: 20,
		Positions: 40}
	for _, m := range []struct {
		want   string
		change func(c *config.Config)
	}{
		{"", func(*config.Config) {}},
		{"model.bert.dir is empty", func(c *config.Config) { c.Model.Bert.Dir = "" }},
		{"no such folder", func(c *config.Config) { c.Model.Bert.Dir = filepath.Join(empty, "nowhere") }},
		{"has neither model.safetensors nor pytorch_model.bin; it has vocab.txt",
			func(c *config.Config) { c.Model.Bert.Dir = empty }},
		{"set model.bert.layers", func(c *config.Config) { c.Model.Bert.Layers = 3 }},
		{"more layers than the 1 of the network", func(c *config.Config) { c.Model.Bert.Layers = 1 }},
		{"has shape [20 12], the network wants [24 12]", func(c *config.Config) { c.Model.Bert.Intermediate = 24 }},
		{"3 attention heads, the network has 4", func(c *config.Config) { c.Model.Bert.Heads = 4 }},
		{"has vectors for 57 word pieces, vocab.txt has 6", func(c *config.Config) {
			c.Data.Vocab = filepath.Join(empty, "vocab.txt")
		}},
	} {
		c := runtest.TinyConfig()
		c.Model.Network, c.Model.TextEncoder, c.Model.Bert = "vseinf", "bert", sizes
		c.Data.Vocab = data.DefaultOptions().Vocab
		c.Train.MaxSteps, c.Train.DropLast = 1, true
		m.change(c)
		if m.want == "" {
			runtest.Train(t, c)
		} else {
			runtest.Refuses(t, c, m.want)
		}
	}
}
