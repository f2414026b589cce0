package evaluate

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/compute/device/cpu"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/torchfile"
	"vsetrain/internal/run/checkpoints"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// fixtures are the checkpoints of all networks. score is their best_rsum as a validation score, bf16 how far scores are
// off with products of bfloat16.
var fixtures = []struct {
	name        string
	score, bf16 float64
}{{"vsepp", 123.25 / 6, 2e-2}, {"vsrn", 123.25 / 4, 2e-2}, {"vsrn-coco", 123.25 / 4, 2e-2},
	{"vseinf", 123.25 / 6, 2e-2}, {"saf", 123.25 / 6, 2e-2}, {"sgr", 123.25 / 6, 2e-2}, {"gsmn", 123.25 / 6, 2e-2}}

// evaluate measures the test split of a fixture and returns the saved scores.
func evaluate(t *testing.T, fixture, precision string, paths ...string) (eval.Metrics, []float64) {
	t.Helper()
	return evaluateWith(t, Request{Checkpoints: paths, Data: filepath.Join(fixture, "data"), Split: "test",
		Protocol: eval.Auto,
		Device:   device.Options{Kind: "auto", Precision: precision, Threads: 2}})
}

func evaluateWith(t *testing.T, r Request) (eval.Metrics, []float64) {
	t.Helper()
	r.SaveScores = filepath.Join(t.TempDir(), "scores.npy")
	rep := try.Get(Run(t.Context(), r))(t)
	return rep.Results[0].Metrics, readScores(t, r.SaveScores)
}

func readScores(t *testing.T, path string) []float64 {
	t.Helper()
	s := try.Get(eval.LoadScores(path))(t)
	n, m := s.Dims()
	out := make([]float64, n*m)
	s.Tile(out, 0, n, 0, m)
	return out
}

func TestEvalGivesTheScoresOfPyTorch(t *testing.T) {
	for _, f := range fixtures {
		t.Run(f.name, func(t *testing.T) { scoresOfPyTorch(t, runtest.FixtureOf(f.name), f.bf16) })
	}
}

func scoresOfPyTorch(t *testing.T, fixture string, bf16 float64) {
	t.Helper()
	var want eval.Metrics
	b := try.Get(os.ReadFile(filepath.Join(fixture, "expected.json")))(t)
	try.Do(t, json.Unmarshal(b, &want))
	exact := readScores(t, filepath.Join(fixture, "scores.npy"))
	single := readScores(t, filepath.Join(fixture, "scores_f32.npy"))
	for _, name := range runtest.FixtureCheckpoints {
		for _, c := range []struct {
			precision string
			scores    []float64
			limit     float64
		}{{cpu.FP64, exact, 2e-7}, {cpu.FP32, exact, 2e-6}, {cpu.FP32, single, 2e-6}, {cpu.BF16, exact, bf16}} {
			m, scores := evaluate(t, fixture, c.precision, filepath.Join(fixture, name))
			if d := runtest.Worst(scores, c.scores); d > c.limit {
				t.Errorf("%s, %s: largest difference of a score %g, want at most %g", name, c.precision, d, c.limit)
			}
			if c.precision == cpu.BF16 {
				continue
			}
			got := []float64{m.I2T.R1, m.I2T.R5, m.I2T.R10, m.I2T.MedR, m.I2T.MeanR, m.T2I.R1, m.T2I.R5, m.T2I.R10,
				m.T2I.MedR, m.T2I.MeanR, m.RSum, m.MRecall}
			w := []float64{want.I2T.R1, want.I2T.R5, want.I2T.R10, want.I2T.MedR, want.I2T.MeanR, want.T2I.R1,
				want.T2I.R5, want.T2I.R10, want.T2I.MedR,
				want.T2I.MeanR, want.RSum, want.MRecall}
			if runtest.Worst(got, w) > 1e-9 {
				t.Errorf("%s, %s: measures %v, want %v", name, c.precision, got, w)
			}
		}
	}
}

// tensorsOf reads the state dicts of a PyTorch checkpoint.
func tensorsOf(t *testing.T, path string) (states []map[string][]float64, shapes []map[string][]int,
	top *torchfile.Dict) {
	t.Helper()
	v := try.Get(torchfile.Load(path))(t)
	top = v.(*torchfile.Dict)
	list, _ := top.Get("model")
	for _, it := range list.(*torchfile.List).Items {
		values, sizes := map[string][]float64{}, map[string][]int{}
		for k, v := range it.(*torchfile.Dict).All() {
			if strings.HasSuffix(k.(string), ".num_batches_tracked") { // PyTorch fills it in
				continue
			}
			x := try.Get(v.(*torchfile.Tensor).Float64s())(t)
			values[k.(string)], sizes[k.(string)] = x, v.(*torchfile.Tensor).Shape
		}
		states, shapes = append(states, values), append(shapes, sizes)
	}
	return states, shapes, top
}

// Import and export keep every bit of the weights, their names, their order and what else the reference stores.
func TestImportAndExport(t *testing.T) {
	for _, f := range fixtures {
		for _, name := range runtest.FixtureCheckpoints {
			t.Run(f.name+"/"+name, func(t *testing.T) { importAndExport(t, runtest.FixtureOf(f.name), name, f.score) })
		}
	}
}

func importAndExport(t *testing.T, fixture, name string, score float64) {
	t.Helper()
	dir := t.TempDir()
	source := filepath.Join(fixture, name)
	ours := filepath.Join(dir, "ours.safetensors")
	try.Get(checkpoints.Import(checkpoints.Source{Checkpoint: source,
		Vocab: filepath.Join(fixture, "data", "vocab.json")}, ours))(t)
	m1, s1 := evaluate(t, fixture, cpu.FP32, source)
	m2, s2 := evaluate(t, fixture, cpu.FP32, ours)
	if m1 != m2 || !slices.Equal(s1, s2) {
		t.Errorf("the imported checkpoint scores %v, its source %v", m2, m1)
	}
	w := try.Get(models.OpenCheckpoint(ours))(t)
	defer w.Close()
	if epoch, step, got := w.Progress(); epoch != 3 || step != 3402 || got != score {
		t.Errorf("progress %v %v %v", epoch, step, got)
	}
	if w.VocabularyHash() == "" {
		t.Error("the vocabulary was not recorded")
	}
	for _, from := range []string{source, ours} {
		for _, namespace := range []bool{false, true} {
			back := filepath.Join(dir, "back.pth.tar")
			try.Get(checkpoints.Export(checkpoints.Source{Checkpoint: from}, back, namespace))(t)
			checkExport(t, source, back, namespace)
		}
	}
}

func checkExport(t *testing.T, source, back string, namespace bool) {
	t.Helper()
	want, wantShapes, wantTop := tensorsOf(t, source)
	got, shapes, top := tensorsOf(t, back)
	if len(got) != len(want) {
		t.Fatalf("%d state dicts, want %d", len(got), len(want))
	}
	for i := range want {
		if len(got[i]) != len(want[i]) {
			t.Errorf("state dict %d has %d tensors, want %d", i, len(got[i]), len(want[i]))
		}
		for name, v := range want[i] {
			if !slices.Equal(got[i][name], v) || !slices.Equal(shapes[i][name], wantShapes[i][name]) {
				t.Errorf("state dict %d: tensor %s changed", i, name)
			}
		}
	}
	for _, key := range []string{"epoch", "Eiters", "best_rsum"} {
		if number(t, top, key) != number(t, wantTop, key) {
			t.Errorf("%s is %v, want %v", key, number(t, top, key), number(t, wantTop, key))
		}
	}
	opt, _ := top.Get("opt")
	original, _ := wantTop.Get("opt")
	attrs := &original.(*torchfile.Namespace).Attrs
	var mine *torchfile.Dict
	if namespace {
		mine = &opt.(*torchfile.Namespace).Attrs
	} else {
		mine = opt.(*torchfile.Dict)
	}
	for key := range attrs.All() {
		if _, ok := mine.Get(key.(string)); !ok {
			t.Errorf("option %s, which the reference's scripts expect, is missing", key)
		}
	}
	for _, key := range []string{"img_dim", "embed_size", "word_dim", "vocab_size", "num_layers", "measure", "use_abs",
		"no_imgnorm", "data_name", "finetune", "learning_rate"} {
		b, there := attrs.Get(key)
		if a, ok := mine.Get(key); there && (!ok || a != b) {
			t.Errorf("option %s is %v, want %v", key, a, b)
		}
	}
	a := try.Get(models.OpenReference(source, nil))(t)
	if r, err := models.OpenReference(back, nil); err != nil {
		t.Error(err)
	} else if r.Network() != a.Network() || r.Sizes() != a.Sizes() || r.Network().EmbedDim%16 != 0 ||
		r.Network().WordDim != 6 || r.Sizes().Regions*r.Sizes().Feature != 36*8 {
		t.Errorf("read back as %+v %+v", r.Network(), r.Sizes())
	}
}

func number(t *testing.T, d *torchfile.Dict, key string) float64 {
	t.Helper()
	v, ok := d.Get(key)
	switch x := v.(type) {
	case int64:
		return float64(x)
	case float64:
		return x
	}
	t.Errorf("%s: %T, present %v", key, v, ok)
	return 0
}

// A run of ours exported and read back scores the same, and an imported checkpoint can start a run.
func TestExportOfARun(t *testing.T) {
	for _, network := range []string{models.VSEPP, models.VSRN, models.VSEInf, models.SAF, models.SGR} {
		t.Run(network, func(t *testing.T) { exportOfARun(t, network) })
	}
}

func exportOfARun(t *testing.T, network string) {
	t.Helper()
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, network)
	c.Train.Epochs, c.Train.MaxSteps = 1, 4
	run := runtest.Train(t, c)
	path := filepath.Join(t.TempDir(), "model.pth.tar")
	try.Get(checkpoints.Export(checkpoints.Source{Checkpoint: run}, path, false))(t)
	r := Request{Checkpoints: []string{run}, Split: "test", Protocol: eval.Auto, Device: device.DefaultOptions()}
	_, want := evaluateWith(t, r)
	r.Checkpoints, r.Data = []string{path}, runtest.World
	if _, got := evaluateWith(t, r); !slices.Equal(got, want) {
		t.Errorf("exported scores differ by %g", runtest.Worst(got, want))
	}
	for _, from := range []string{run, path} {
		w := try.Get(models.OpenWeights(from, nil))(t)
		if n, err := trainedBatch(w); n != int(c.Train.Batch) || err != nil {
			t.Errorf("%s was trained with batches of %d, %v; want %d", from, n, err, c.Train.Batch)
		}
		w.Close()
	}
	c.Train.InitFrom, c.Optim.LR = path, 1e-12
	started := runtest.Train(t, c)
	// Running statistics move all the same, so the weights are compared and not the scores.
	weights, start := runtest.OpenTensors(t, runtest.Checkpoint(run, runfs.LastName)), runtest.OpenTensors(t,
		runtest.Checkpoint(started, runfs.LastName))
	for _, name := range []string{"img.fc.weight", "txt.embed.weight"} {
		x, _ := weights.Tensor(name)
		a, b := make([]float32, len(x.Data)/4), make([]float32, len(x.Data)/4)
		try.Do(t, errors.Join(weights.Float32s(name, a), start.Float32s(name, b)))
		for i := range a {
			if math.Abs(float64(a[i]-b[i])) > 1e-9 {
				t.Fatalf("%s of a run started from the export is %v at %d, want %v", name, b[i], i, a[i])
			}
		}
	}
}

func TestEnsembleAveragesScores(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	a := runtest.Train(t, c)
	c.Seed = 8
	b := runtest.Train(t, c)
	r := Request{Split: "test", Protocol: eval.Auto, Device: device.DefaultOptions()}
	var each [3][]float64
	for i, paths := range [][]string{{a}, {b}, {a, b}} {
		r.Checkpoints = paths
		_, each[i] = evaluateWith(t, r)
	}
	mean := make([]float64, len(each[0]))
	for i := range mean {
		mean[i] = (each[0][i] + each[1][i]) / 2
	}
	if runtest.Worst(each[0], each[1]) < 1e-3 || runtest.Worst(each[2], mean) > 1e-7 {
		t.Errorf("members differ by %g, the ensemble from their mean by %g", runtest.Worst(each[0], each[1]),
			runtest.Worst(each[2], mean))
	}
	r.Checkpoints, r.Data = []string{a, filepath.Join(runtest.Fixture, runtest.FixtureCheckpoints[0])}, runtest.World
	try.Refuses(Run(t.Context(), r))(t, "checkpoint.pth.tar", "features", "288", "3 x 16")
}

// Every network trains on the world and is evaluated there. Batch size and threads change no bit of the scores; the
// saved matrix is float32 [images, captions].
func TestEvalOptionsChangeNothing(t *testing.T) {
	for _, network := range models.Available() {
		t.Run(network, func(t *testing.T) { evalOptions(t, network) })
	}
}

func evalOptions(t *testing.T, network string) {
	t.Helper()
	c := runtest.TinyConfig()
	runtest.SetNetwork(c, network)
	c.Model.VSRN.Caption, c.Train.MaxSteps = false, 4
	r := Request{Checkpoints: []string{runtest.Train(t, c)}, Split: "test", Protocol: eval.Auto}
	var want []float64
	for _, o := range [][2]int{{128, 1}, {1, 2}, {7, 3}, {64, 2}} {
		r.Batch, r.Device = o[0], device.Options{Kind: "cpu", Precision: "fp32", Threads: o[1]}
		_, got := evaluateWith(t, r)
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("batch %d with %d threads: scores differ by %g", o[0], o[1], runtest.Worst(got, want))
		}
	}
	r.SaveScores = filepath.Join(t.TempDir(), "s.npy")
	try.Get(Run(t.Context(), r))(t)
	f := try.Get(npy.Open(r.SaveScores))(t)
	defer f.Close()
	if f.DType != npy.F32 || !slices.Equal(f.Shape, []int{12, 60}) {
		t.Errorf("scores are %s %v", f.DType, f.Shape)
	}
}
