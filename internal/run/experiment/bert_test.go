package experiment

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"vsetrain/internal/files/runfs"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/run/config"
	"vsetrain/models"
	"vsetrain/semantic"
	"vsetrain/train"
)

// bertFixture is what scripts/make_bert_fixture.py writes.
var bertFixture = fixtureOf("vseinf-bert")

// A checkpoint of VSE-infinity with BERT, its captions cut into word pieces here, gives the scores of PyTorch.
func TestBertGivesTheScoresOfPyTorch(t *testing.T) {
	exact, single := readScores(t, filepath.Join(bertFixture, "scores.npy")),
		readScores(t, filepath.Join(bertFixture, "scores_f32.npy"))
	for _, c := range []struct {
		precision string
		scores    []float64
		limit     float64
	}{{cpu.FP64, exact, 2e-7}, {cpu.FP32, exact, 5e-6}, {cpu.FP32, single, 5e-6}, {cpu.BF16, exact, 2e-2}} {
		_, scores := evaluate(t, bertFixture, c.precision, filepath.Join(bertFixture, "checkpoint.pth"))
		if d := worst(scores, c.scores); !(d <= c.limit) {
			t.Errorf("%s: largest difference of a score %g, want at most %g", c.precision, d, c.limit)
		}
	}
}

// Import and export keep every tensor, and the export has the names that the reference's loader wants.
func TestBertImportAndExport(t *testing.T) {
	source, dir := filepath.Join(bertFixture, "checkpoint.pth"), t.TempDir()
	ours, back := filepath.Join(dir, "ours.safetensors"), filepath.Join(dir, "back.pth")
	if _, err := Import(source, ours, filepath.Join(bertFixture, "data", "vocab.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := Export(ours, back, true); err != nil {
		t.Fatal(err)
	}
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
	a, err := models.OpenReference(source)
	if err != nil {
		t.Fatal(err)
	}
	b, err := models.OpenReference(back)
	if err != nil {
		t.Fatal(err)
	}
	if o := a.Network(); o != b.Network() || a.Sizes() != b.Sizes() || o.Bert.Heads != 3 || o.Bert.Layers != 2 ||
		o.Bert.Hidden != 12 || o.Bert.Intermediate != 20 || o.Bert.Positions != 40 {
		t.Errorf("read as %+v, back as %+v", a.Network(), b.Network())
	}
	if _, err := Import(source, ours, filepath.Join(fixture, "data", "vocab.json")); err == nil {
		t.Error("a vocabulary of words was accepted for word pieces")
	}
}

// The sentence vectors of a pretrained encoder are those of PyTorch, whatever the batches.
func TestSentenceVectorsOfPyTorch(t *testing.T) {
	for _, pool := range models.SentencePools {
		want := readRows(t, filepath.Join(bertFixture, "vectors_"+pool+".npy"))
		for _, n := range []int{64, 7} {
			out := filepath.Join(t.TempDir(), "train_bert.npy")
			r := SentenceRequest{Captions: filepath.Join(bertFixture, "data", "test_caps.txt"),
				Bert: filepath.Join(bertFixture, "bert"), Pool: pool,
				Out: out, Batch: n, Device: device.Options{Kind: "cpu", Threads: 2, Precision: "fp32"}}
			rep, err := PrecomputeBert(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if rep.Captions != 30 || rep.Dim != 12 {
				t.Errorf("%+v", rep)
			}
			if d := worst(readRows(t, out), want); !(d <= 5e-6) {
				t.Errorf("%s in batches of %d: largest difference %g", pool, n, d)
			}
			s, err := semantic.Open(out, semantic.OpenOptions{Captions: 30, CaptionFile: r.Captions})
			if err != nil {
				t.Fatal(err)
			}
			if s.Sidecar == nil || s.Sidecar.Method != "bert" || s.Sidecar.Pool != pool {
				t.Errorf("description %+v", s.Sidecar)
			}
			s.Close()
		}
	}
}

func readRows(t *testing.T, path string) (out []float64) {
	t.Helper()
	f, err := npy.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	row := make([]float32, f.RowLen())
	for i := range f.Rows() {
		if err := f.ReadRow(row, i); err != nil {
			t.Fatal(err)
		}
		for _, v := range row {
			out = append(out, float64(v))
		}
	}
	return out
}

// bertConfig trains VSE-infinity with a tiny BERT, drawn at random, on pieces of the words of the synthetic world.
func bertConfig(t *testing.T) *config.Config {
	t.Helper()
	pieces := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
	for r := 'a'; r <= 'z'; r++ {
		pieces = append(pieces, string(r), "##"+string(r))
	}
	known := map[string]bool{}
	f, err := os.Open(filepath.Join(world, "train_caps.txt"))
	if err != nil {
		t.Fatal(err)
	}
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
	if err := os.WriteFile(path, []byte(strings.Join(pieces, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := tinyConfig()
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
	whole := mustTrain(t, c)
	dir := filepath.Join(t.TempDir(), "run")
	if n := interrupted(t, c, dir, 7, 1, 2, 3); n != 3 {
		t.Errorf("%d interruptions", n)
	}
	sameTensors(t, checkpoint(dir, runfs.LastName), checkpoint(whole, runfs.LastName))
	rep, err := Eval(t.Context(), EvalRequest{Checkpoints: []string{dir}, Data: world, Split: "test",
		Protocol: eval.Auto, Device: device.Options{Kind: "cpu", Threads: 2, Precision: "fp32"}})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Captions != 60 || len(rep.Results) == 0 {
		t.Errorf("%+v", rep)
	}
}

// The loss falls, the pooler stays as drawn, and the parameters of BERT move at their own rate.
func TestBertLearns(t *testing.T) {
	c := bertConfig(t)
	c.Train.Epochs, c.Train.ValStep, c.Optim.LRUpdate, c.Model.VSEInf.SizeAugment = 12, 0, 0, false
	c.Loss.Name, c.Model.Bert.Dropout, c.Optim.LR = "lsh", 0, 3e-3
	var losses []float64
	run := filepath.Join(t.TempDir(), "run")
	if _, err := Train(t.Context(), request(c, run, &watcher{onStep: func(i train.StepInfo) {
		losses = append(losses, i.StepResult.Loss)
	}})); err != nil {
		t.Fatal(err)
	}
	mean := func(x []float64) (m float64) {
		for _, v := range x {
			m += v / float64(len(x))
		}
		return m
	}
	if first, last := mean(losses[:12]), mean(losses[len(losses)-12:]); !(last < 0.5*first) {
		t.Errorf("the loss of the first epoch is %.3f, of the last %.3f", first, last)
	}
	moments := openTensors(t, checkpoint(run, runfs.LastName))
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
	good := filepath.Join(bertFixture, "bert")
	empty := t.TempDir()
	if err := os.WriteFile(filepath.Join(empty, "vocab.txt"), []byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
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
		c := tinyConfig()
		c.Model.Network, c.Model.TextEncoder, c.Model.Bert = "vseinf", "bert", sizes
		c.Data.Vocab = data.DefaultOptions().Vocab
		c.Train.MaxSteps, c.Train.DropLast = 1, true
		m.change(c)
		_, err := Train(t.Context(), request(c, filepath.Join(t.TempDir(), "run"), &watcher{}))
		if m.want == "" && err != nil || m.want != "" && (err == nil || !strings.Contains(err.Error(), m.want)) {
			t.Errorf("error %v, want one with %q", err, m.want)
		}
	}
}
