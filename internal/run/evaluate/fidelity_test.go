package evaluate

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/torchfile"
	"vsetrain/internal/run/checkpoints"
	"vsetrain/internal/run/placement"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// A vocabulary that the script of VSE-infinity or CHAN saved after it had added <mask> is the one the checkpoint was
// trained with.
func TestVocabularySavedWithItsMask(t *testing.T) {
	dir := runtest.FixtureOf("vseinf")
	var v struct {
		Word2idx map[string]int    `json:"word2idx"`
		Idx2word map[string]string `json:"idx2word"`
		Idx      int               `json:"idx"`
	}
	b, err := os.ReadFile(filepath.Join(dir, "data", "vocab.json"))
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	try.Do(t, err)
	id, err := json.Marshal(v.Idx)
	try.Do(t, err)
	v.Word2idx["<mask>"], v.Idx2word[string(id)] = v.Idx, "<mask>"
	v.Idx++
	if b, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	masked := filepath.Join(t.TempDir(), "vocab_mask.json")
	try.Do(t, os.WriteFile(masked, b, 0o666))
	r := Request{Data: filepath.Join(dir, "data"), Split: "test"}
	r.Device = device.Options{Kind: "cpu", Precision: "fp32"}
	aligning := filepath.Join(t.TempDir(), "chan.pth")
	exportUntrained(t, aligning, models.CHAN, models.Dims{Regions: 36, Feature: 8, Vocab: v.Idx - 1})
	for _, path := range []string{filepath.Join(dir, runtest.FixtureCheckpoints[0]), aligning} {
		r.Checkpoints, r.Vocab = []string{path}, ""
		_, want := evaluateWith(t, r)
		r.Vocab = masked
		if _, got := evaluateWith(t, r); runtest.Worst(got, want) != 0 {
			t.Errorf("%s: scores differ by up to %g", path, runtest.Worst(got, want))
		}
	}
	// Any other network takes <mask> for a word.
	r.Checkpoints, r.Data = []string{filepath.Join(runtest.Fixture, runtest.FixtureCheckpoints[0])},
		filepath.Join(runtest.Fixture, "data")
	try.Refuses(Run(t.Context(), r))(t, "vectors for", "the vocabulary has")
}

// exportUntrained writes a checkpoint of a reference with the weights that a network begins with.
func exportUntrained(t *testing.T, path, network string, d models.Dims) {
	t.Helper()
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, network)
	dev := try.Get(placement.Open(device.Options{Kind: "cpu", Threads: 1, Precision: "fp32"}, "", nil))(t)
	defer dev.Close()
	m, err := models.NewModel(dev, c.Model, d)
	if err == nil {
		err = models.ExportReference(path, m, &models.Checkpoint{}, models.ExportOptions{})
	}
	try.Do(t, err)
}

// An exported run carries its own settings in place of the reference's defaults.
func TestExportOfTheSettingsOfARun(t *testing.T) {
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, models.VSEInf)
	c.Loss.Name, c.Loss.Margin, c.Loss.WarmupEpochs, c.Seed = loss.LSH, 0.185, 0, 11
	c.Optim.LR, c.Optim.LRUpdate, c.Optim.Clip = 0.002, 3, 1.5
	c.Train.Epochs, c.Train.MaxSteps, c.Train.Batch, c.Train.ValStep = 2, 2, 8, 5
	run := runtest.Train(t, c)
	path := filepath.Join(t.TempDir(), "model.pth")
	try.Get(checkpoints.Export(checkpoints.Source{Checkpoint: run}, path, true))(t)
	v := try.Get(torchfile.Load(path))(t)
	opt, _ := v.(*torchfile.Dict).Get("opt")
	for name, want := range map[string]any{"loss": "lsh", "margin": 0.185, "max_violation": false, "seed": int64(11),
		"learning_rate": 0.002,
		"lr_update":     int64(3), "grad_clip": 1.5, "batch_size": int64(8), "num_epochs": int64(2),
		"val_step":               int64(5),
		"vse_mean_warmup_epochs": int64(0), "logger_name": filepath.ToSlash(run), "optim": "adam",
		"embed_size": int64(c.Model.EmbedDim)} {
		if got, _ := opt.(*torchfile.Namespace).Attrs.Get(name); got != want {
			t.Errorf("option %s is %v, want %v", name, got, want)
		}
	}
}

// --num_layers of the references: the message says why.
func TestSeveralLayersAreRefused(t *testing.T) {
	for _, network := range []string{"vsepp", "vsrn", "saf", "gsmn", "vseinf"} {
		v, err := torchfile.Load(filepath.Join(runtest.FixtureOf(network), runtest.FixtureCheckpoints[0]))
		try.Do(t, err)
		list, _ := v.(*torchfile.Dict).Get("model")
		text := list.(*torchfile.List).Items[1].(*torchfile.Dict)
		name := "rnn.weight_hh_l"
		if network == "saf" {
			name = "cap_rnn.weight_hh_l"
		}
		w, ok := text.Get(name + "0")
		if !ok {
			t.Fatalf("%s: no %s0", network, name)
		}
		text.Set(name+"1", w)
		text.Set(name+"2", w)
		path := filepath.Join(t.TempDir(), "layers.pth.tar")
		try.Do(t, torchfile.Save(path, v))
		_, err = models.OpenReference(path, nil)
		try.Fails(t, err, path, "network "+network, "3 GRU layers (--num_layers 3)", "supported is one layer")
	}
}

// With CompatBoxes GSMN's scores are those that PyTorch computes when it reads boxes as the repository's evaluation
// does, with boxes of either type.
func TestGSMNWithTheBoxesOfItsEvaluation(t *testing.T) {
	dir := runtest.FixtureOf("gsmn")
	own := readScores(t, filepath.Join(dir, "scores.npy"))
	r := Request{Checkpoints: []string{filepath.Join(dir, runtest.FixtureCheckpoints[0])}, Split: "test"}
	r.Device = device.Options{Kind: "cpu", Precision: "fp64"}
	wide := filepath.Join(t.TempDir(), "wide")
	try.Do(t, os.CopyFS(wide, os.DirFS(filepath.Join(dir, "data"))))
	widen(t, filepath.Join(wide, "test_ims_bbx.npy"))
	seen := map[string][]float64{}
	for dtype, folder := range map[string]string{"float32": filepath.Join(dir, "data"), "float64": wide} {
		r.Data, r.CompatBoxes = folder, true
		want := readScores(t, filepath.Join(dir, "scores_compat_"+dtype+".npy"))
		_, got := evaluateWith(t, r)
		if runtest.Worst(got, want) > 2e-7 {
			t.Errorf("%s: scores differ from PyTorch's by up to %g", dtype, runtest.Worst(got, want))
		}
		seen[dtype] = got
		r.CompatBoxes = false
		if _, got := evaluateWith(t, r); runtest.Worst(got, own) > 2e-7 {
			t.Errorf("%s: without the option scores differ from PyTorch's by up to %g", dtype, runtest.Worst(got, own))
		}

		// The fixture is too small for five folds.
		q := r.trained(r.Checkpoints[0])
		p := try.Get(q.Prepare())(t)
		for protocol, folds := range map[eval.Protocol]bool{eval.Auto: false, eval.OneK: false, eval.FiveFolds: true} {
			if got, err := compatBoxes(p, protocol); err != nil ||
				*got != (data.StoredBoxes{Folds: folds, Batch: 8}) {
				t.Errorf("protocol %s takes boxes %+v, %v; want those of folds %v", protocol, got, err, folds)
			}
		}
		m := try.Get(p.Start(&q))(t)
		defer m.Close()
		s := try.Get(eval.Score(t.Context(), nil, m.Runner, m.Split, m.Tokenizer, eval.EncodeOptions{
			Boxes: &data.StoredBoxes{Folds: true, Batch: 8}}))(t)
		got, want = make([]float64, len(own)), readScores(t, filepath.Join(dir, "scores_compat_folds_"+dtype+".npy"))
		s.Tile(got, 0, m.Split.NumImages(), 0, m.Split.NumCaptions())
		if runtest.Worst(got, want) > 2e-7 {
			t.Errorf("%s: scores in folds differ from PyTorch's by up to %g", dtype, runtest.Worst(got, want))
		}
	}
	if runtest.Worst(own, seen["float64"]) < 0.1 || runtest.Worst(seen["float32"], seen["float64"]) < 0.01 {
		t.Fatal("the fixture does not tell the boxes apart")
	}

	// A file that does not know its batch serves only where the batch does not matter.
	ours := filepath.Join(t.TempDir(), "ours.safetensors")
	try.Get(checkpoints.Import(checkpoints.Source{Checkpoint: r.Checkpoints[0],
		Vocab: filepath.Join(dir, "data", "vocab.json")}, ours))(t)
	r.Checkpoints, r.Data, r.CompatBoxes = []string{ours}, wide, true
	if _, got := evaluateWith(t, r); runtest.Worst(got, seen["float64"]) > 2e-7 {
		t.Errorf("imported: scores differ by up to %g", runtest.Worst(got, seen["float64"]))
	}
	r.Data = filepath.Join(dir, "data")
	_, err := Run(t.Context(), r)
	try.Fails(t, err, "ours.safetensors", "float32", "depend on batch_size", "evaluate its run directory")

	r.Checkpoints, r.Data, r.CompatBoxes = []string{filepath.Join(runtest.Fixture, runtest.FixtureCheckpoints[0])},
		filepath.Join(runtest.Fixture, "data"), true
	_, err = Run(t.Context(), r)
	try.Fails(t, err, runtest.FixtureCheckpoints[0], "network vsepp looks at no boxes; it is for gsmn")
}

// widen stores an array of float32 as float64.
func widen(t *testing.T, path string) {
	t.Helper()
	f := try.Get(npy.Open(path))(t)
	shape := f.Shape
	values, err := f.Float64s()
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	narrow := make([]float32, len(values))
	for i, v := range values {
		narrow[i] = float32(v)
	}
	w := try.Get(npy.Create(path, npy.F64, shape))(t)
	try.Do(t, errors.Join(w.WriteFloat32(narrow), w.Close()))
}
