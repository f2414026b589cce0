package training_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"vsetrain/data/text"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/train"
)

// tree lists the files below a folder with their sizes, the lock left out.
func tree(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".lock" {
			b, err := os.ReadFile(path)
			out = append(out, path+"\x00"+string(b))
			return err
		}
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}

// What cannot start says why in one line, and leaves no run behind: the mended command works in the same directory.
func TestTrainingThatCannotStart(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(t *testing.T, c *config.Config)
		words  []string
	}{
		{"no data folder", func(_ *testing.T, c *config.Config) { c.Data.Dir = "" },
			[]string{"data.dir is empty", "--set data.dir="}},
		{"missing vocabulary", func(t *testing.T, c *config.Config) {
			c.Data.Dir = runtest.CopyWorld(t)
			remove(t, c.Data.Dir, "vocab.json")
		}, []string{"vocab.json: no vocabulary", "vsetrain data vocab"}},
		{"no data folder", func(t *testing.T, c *config.Config) { c.Data.Dir = "nowhere/f30k" },
			[]string{"nowhere/f30k: no such folder in /", "train_caps.txt", "with data.dir"}},
		{"missing split", func(t *testing.T, c *config.Config) {
			c.Data.Dir = runtest.CopyWorld(t)
			remove(t, c.Data.Dir, "dev_caps.txt")
		}, []string{`split "dev" has images`, "but no captions: expected", "dev_caps.txt"}},
		{"missing semantics", func(t *testing.T, c *config.Config) {
			c.Data.Dir = runtest.CopyWorld(t)
			remove(t, c.Data.Dir, "train_svd.npy")
		}, []string{"no train_svd.npy", "loss lseh needs", "vsetrain precompute-svd --data"}},
		{"semantics of other captions", func(t *testing.T, c *config.Config) {
			c.Data.Dir = runtest.CopyWorld(t)
			edit(t, c.Data.Dir, "train_caps.txt", func(b []byte) []byte {
				return append([]byte("Other words .\n"), b[strings.IndexByte(string(b), '\n')+1:]...)
			})
		}, []string{"train_svd"}},
		{"truncated features", func(t *testing.T, c *config.Config) {
			c.Data.Dir = runtest.CopyWorld(t)
			edit(t, c.Data.Dir, "train_ims.npy", func(b []byte) []byte { return b[:len(b)-7] })
		}, []string{"train_ims.npy"}},
		{"no boxes", gsmnWithout("train_ims_bbx.npy"), []string{"split \"train\" has no boxes: expected",
			"train_ims_bbx.npy, pixel coordinates x1,y1,x2,y2 of every region [40, 3, 4]"}},
		{"no picture sizes", gsmnWithout("dev_ims_size.npy"), []string{"split \"dev\" has boxes but no picture sizes",
			"[12, 2]"}},
		{"no dependencies", gsmnWithout("train_caps.json"), []string{"split \"train\" has no dependencies",
			"train_caps.conllu in the CoNLL-U format; model.gsmn.mode: dense needs neither"}},
		{"dependencies of other captions", func(t *testing.T, c *config.Config) {
			gsmnWithout()(t, c)
			c.Model.GSMN.Neighbors = "self" // they make no difference, but are wrong
			edit(t, c.Data.Dir, "train_caps.json", func([]byte) []byte { return []byte("[\n[[0,1]]]") })
		}, []string{"train_caps.json: dependencies of 1 captions, but", "has 200"}},
		{"cuda", func(t *testing.T, c *config.Config) {
			t.Setenv("VSETRAIN_CUDA_DRIVER", "/nowhere/libcuda.so.1") // also where there is a GPU
			c.Device.Kind = "cuda"
		}, []string{"device.kind cuda", "/nowhere/libcuda.so.1", "set device.kind to auto or cpu"}},
		{"initial weights that do not exist", func(_ *testing.T, c *config.Config) { c.Train.InitFrom = "nowhere.pth" },
			[]string{"checkpoint nowhere.pth: no such file"}},
		{"initial weights of other sizes", func(t *testing.T, c *config.Config) {
			small := runtest.TinyConfig()
			small.Train.MaxSteps, small.Model.EmbedDim = 1, 8
			c.Train.InitFrom = runtest.Train(t, small)
		}, []string{"img.fc.weight", "shape [8 48]", "wants [16 48]"}},
		{"initial weights of another vocabulary", func(t *testing.T, c *config.Config) {
			c.Train.InitFrom = filepath.Join(runtest.Fixture, runtest.FixtureCheckpoints[0])
		}, []string{"vectors for 45 words", "--vocab or data.vocab"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			cfg := runtest.TinyConfig()
			c.change(t, cfg)
			_, err := training.Train(t.Context(), runtest.Request(cfg, dir, &runtest.Watcher{}))
			try.Fails(t, err, c.words...)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
			if files := tree(t, dir); len(files) != 0 {
				t.Errorf("left behind: %q", files)
			}
			good := runtest.TinyConfig()
			good.Train.MaxSteps = 1
			if _, err := training.Train(t.Context(), runtest.Request(good, dir, &runtest.Watcher{})); err != nil {
				t.Errorf("the mended run: %v", err)
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	try.Do(t, os.Remove(filepath.Join(dir, name)))
}

func edit(t *testing.T, dir, name string, f func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	b := try.Get(os.ReadFile(path))(t)
	try.Do(t, os.WriteFile(path, f(b), 0o666))
}

// A run that cannot be resumed as asked says why and is left as it was.
func TestResumeThatCannotContinue(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.Epochs = 1
	source := runtest.Train(t, c)
	for _, k := range []struct {
		name   string
		change func(t *testing.T, r *training.Request)
		words  []string
	}{
		{"without --resume", func(_ *testing.T, r *training.Request) { r.Resume = false },
			[]string{"holds a run already", "--resume", "--run"}},
		{"changed margin and rate", func(_ *testing.T, r *training.Request) {
			r.Config.Loss.Margin, r.Config.Optim.LR = 0.3, 1
		},
			[]string{"not the one the run began with: loss.margin was 0.2, is 0.3, optim.lr was 0.005, is 1;",
				"--run"}},
		{"changed nested option", func(_ *testing.T, r *training.Request) { r.Config.Loss.LSEH.Lambda = 0.01 },
			[]string{"loss.lseh.lambda was 0.025, is 0.01"}},
		{"changed network", func(_ *testing.T, r *training.Request) { r.Config.Model.EmbedDim = 32 },
			[]string{"model.embed_dim was 16, is 32"}},
		{"changed seed", func(_ *testing.T, r *training.Request) { r.Config.Seed = 9 }, []string{"seed was 7, is 9"}},
		{"changed precision", func(_ *testing.T, r *training.Request) { r.Config.Device.Precision = "bf16" },
			[]string{"device.precision was fp32, is bf16"}},
		{"changed vocabulary", func(t *testing.T, r *training.Request) {
			r.Config.Data.Vocab = filepath.Join(t.TempDir(), "vocab.json")
			v := try.Get(text.LoadVocabulary(filepath.Join(runtest.Fixture, "data", "vocab.json")))(t)
			try.Do(t, v.Save(r.Config.Data.Vocab))
		}, []string{"vocabulary of the data set has changed", "vocab.json has ", "the data set's has 45",
			"--set data.vocab="}},
		{"half a checkpoint", func(t *testing.T, r *training.Request) {
			edit(t, r.RunDir, "checkpoints/"+runfs.LastName, func(b []byte) []byte { return b[:len(b)/2] })
		}, []string{"resume", runfs.LastName, "truncated"}},
		{"checkpoint of other sizes", func(t *testing.T, r *training.Request) {
			small := runtest.TinyConfig()
			small.Train.MaxSteps, small.Model.EmbedDim = 1, 8
			replace(t, r.RunDir, runtest.Checkpoint(runtest.Train(t, small), runfs.LastName))
		}, []string{runfs.LastName, "has shape [8 48], the network wants [16 48]"}},
		{"checkpoint of weights alone", func(t *testing.T, r *training.Request) {
			replace(t, r.RunDir, runtest.Checkpoint(r.RunDir, runfs.BestName))
		}, []string{"weights only", "train.init_from"}},
		{"another data folder", func(t *testing.T, r *training.Request) { r.Config.Data.Dir = runtest.CopyWorld(t) },
			[]string{"data.dir was "}},
		{"broken configuration", func(t *testing.T, r *training.Request) {
			edit(t, r.RunDir, runfs.ConfigName, func(b []byte) []byte { return append(b, "nonsense: 1\n"...) })
		}, []string{"resume", "config.yaml:", "nonsense"}},
		{"broken metrics", func(t *testing.T, r *training.Request) {
			edit(t, r.RunDir, runfs.MetricsName, func(b []byte) []byte { return append([]byte("{\n"), b...) })
		}, []string{"metrics.jsonl:1", "broken line"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			try.Do(t, os.CopyFS(dir, os.DirFS(source)))
			again := *c
			again.Train.Epochs = 2
			r := runtest.Request(&again, dir, &runtest.Watcher{})
			r.Resume = true
			k.change(t, &r)
			before := tree(t, dir)
			try.Refuses(training.Train(t.Context(), r))(t, k.words...)
			after := tree(t, dir)
			if k.name == "broken metrics" { // found after the session was recorded
				return
			}
			if !slices.Equal(before, after) {
				t.Errorf("the run was changed")
			}
		})
	}
}

// The folder is the same, but the captions have become fewer.
func TestResumeWithOtherData(t *testing.T) {
	c := runtest.TinyConfig()
	c.Loss.Name, c.Data.Dir, c.Train.Epochs = loss.LMH, runtest.CopyWorld(t), 1
	dir := runtest.Train(t, c)
	for _, ext := range []string{"_caps.txt", "_ids.txt", "_ims.npy"} {
		b := try.Get(os.ReadFile(filepath.Join(c.Data.Dir, "dev"+ext)))(t)
		try.Do(t, os.WriteFile(filepath.Join(c.Data.Dir, "train"+ext), b, 0o666))
	}
	c.Train.Epochs = 2
	r := runtest.Request(c, dir, &runtest.Watcher{})
	r.Resume = true
	_, err := training.Train(t.Context(), r)
	try.Fails(t, err, "the data set has changed since the run began", "train_caps.txt", "train_ims.npy")
	if err := os.Remove(filepath.Join(dir, inputs.DataName)); err != nil { // as in a version that kept no fingerprint
		t.Fatal(err)
	}
	try.Refuses(training.Train(t.Context(), r))(t, "began with 200 training captions", "has 60 now")
}

func replace(t *testing.T, run, with string) {
	t.Helper()
	b := try.Get(os.ReadFile(with))(t)
	edit(t, run, "checkpoints/"+runfs.LastName, func([]byte) []byte { return b })
}

func TestResumeOfNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := runtest.Request(runtest.TinyConfig(), dir, &runtest.Watcher{})
	r.Resume = true
	_, err := training.Train(t.Context(), r)
	try.Fails(t, err, dir+": nothing to resume: the directory holds no run (no config.yaml)")
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory was made: %v", err)
	}
}

// A run interrupted before its first checkpoint begins again.
func TestResumeBeforeTheFirstCheckpoint(t *testing.T) {
	c := runtest.TinyConfig()
	whole := runtest.Train(t, c)
	dir := filepath.Join(t.TempDir(), "run")
	stop := errors.New("killed")
	r := runtest.Request(c, dir, &runtest.Watcher{OnStep: func(train.StepInfo) { panic(stop) }})
	func() {
		defer func() {
			if recover() != stop {
				t.Fatal("not stopped")
			}
		}()
		_, _ = training.Train(t.Context(), r)
	}()
	r.Observer, r.Resume = &runtest.Watcher{}, true
	try.Get(training.Train(t.Context(), r))(t)
	runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(whole, runfs.LastName))
	if got, want := runtest.Metrics(t, dir), runtest.Metrics(t, whole); !slices.Equal(got, want) {
		t.Errorf("%d lines of metrics, want the same %d", len(got), len(want))
	}
}

// Two runs cannot write to one directory; the message names the process that holds it.
func TestRunDirectoryInUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var second error
	w := &runtest.Watcher{OnStep: func(i train.StepInfo) {
		if i.Step == 3 {
			r := runtest.Request(runtest.TinyConfig(), dir, &runtest.Watcher{})
			r.Resume = true
			_, second = training.Train(ctx, r)
			cancel()
		}
	}}
	if _, err := training.Train(ctx, runtest.Request(runtest.TinyConfig(), dir, w)); !errors.Is(err,
		train.ErrInterrupted) {
		t.Fatal(err)
	}
	try.Fails(t, second, dir, "in use", "process", "on host", "--run DIR")
	if !errors.Is(second, runfs.ErrLocked) {
		t.Errorf("%v is not ErrLocked", second)
	}
}

// Captions of nothing but unknown words train as <unk>; nothing breaks.
func TestUnknownWordsOnly(t *testing.T) {
	c := runtest.TinyConfig()
	c.Loss.Name = loss.LMH
	c.Data.Dir = runtest.CopyWorld(t)
	for _, split := range []string{"train", "dev"} {
		edit(t, c.Data.Dir, split+"_caps.txt", func(b []byte) []byte {
			return []byte(strings.Repeat("zyx wvut .\n", strings.Count(string(b), "\n")))
		})
	}
	c.Train.Epochs = 1
	w := &runtest.Watcher{}
	try.Get(training.Train(t.Context(), runtest.Request(c, filepath.Join(t.TempDir(), "run"), w)))(t)
	for _, v := range w.Validations { // all captions are alike
		if v.Metrics.MRecall > 60 {
			t.Errorf("M-Recall %v from captions that say nothing", v.Metrics.MRecall)
		}
	}
}

// gsmnWithout asks for GSMN with the neighbours' vectors, whose data lack some files.
func gsmnWithout(files ...string) func(*testing.T, *config.Config) {
	return func(t *testing.T, c *config.Config) {
		c.Data.Dir = runtest.CopyWorld(t)
		c.Model.Network, c.Model.TextEncoder, c.Model.GSMN.Neighbors = "gsmn", "bigru", "true"
		for _, f := range files {
			try.Do(t, os.Remove(filepath.Join(c.Data.Dir, f)))
		}
	}
}

// Features that become shorter while they are in use end training and evaluation with an error that names the file.
func TestFeaturesThatBecomeShorter(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped")
	}
	c := runtest.TinyConfig()
	c.Data.Dir = runtest.CopyWorld(t)
	for _, file := range []string{"train_ims.npy", "dev_ims.npy"} {
		path := filepath.Join(c.Data.Dir, file)
		whole, err := os.ReadFile(path)
		try.Do(t, err)
		w := &runtest.Watcher{OnStep: func(i train.StepInfo) {
			if i.Step == 1 && os.Truncate(path, 0) != nil {
				t.Error("not shortened")
			}
		}}
		_, err = training.Train(t.Context(), runtest.Request(c, filepath.Join(t.TempDir(), "run"), w))
		try.Fails(t, err, path+" became shorter while it was in use", "now it has 0")
		try.Do(t, os.WriteFile(path, whole, 0o666))
	}
}
