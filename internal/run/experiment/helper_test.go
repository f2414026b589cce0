package experiment

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vsetrain/data/synth"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/config"
	"vsetrain/loss"
	"vsetrain/semantic"
	"vsetrain/train"
)

// world is a synthetic data set of 40 images and 200 captions with semantic vectors, made once.
var world string

// noDriver is the path of a driver that is not there.
const noDriver = "/nowhere/libcuda.so.1"

func TestMain(m *testing.M) { os.Exit(withWorld(m.Run)) }

func withWorld(run func() int) int {
	os.Setenv("VSETRAIN_CUDA_DRIVER", noDriver) // the CPU, also where there is a GPU
	dir, err := os.MkdirTemp("", "experiment")
	if err == nil {
		defer os.RemoveAll(dir)
		world, err = makeWorld(filepath.Join(dir, "world"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

func makeWorld(dir string) (string, error) {
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 40, 12, 12, 3, 16
	if err := synth.Generate(dir, o, nil); err != nil {
		return "", err
	}
	s := semantic.DefaultOptions()
	s.K = 8
	_, err := semantic.Precompute(context.Background(), filepath.Join(dir, "train_caps.txt"),
		filepath.Join(dir, "train_svd.npy"), s, nil)
	return dir, err
}

// copyWorld is a data set of its own that a test may spoil.
func copyWorld(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "world")
	if err := os.CopyFS(dir, os.DirFS(world)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// tinyConfig trains VSE++ with LSEH for two epochs of 13 batches, the last of them incomplete.
func tinyConfig() *config.Config {
	c := config.Default()
	c.Data.Dir = world
	c.Model.EmbedDim, c.Model.WordDim = 16, 8
	c.Loss.Name = loss.LSEH
	c.Optim.LR, c.Optim.LRUpdate = 5e-3, 1
	c.Train.Epochs, c.Train.Batch, c.Train.ValStep, c.Train.LogStep = 2, 16, 5, 1
	c.Device.Threads = 1
	return &c
}

// watcher is an Observer that counts, and interrupts a run.
type watcher struct {
	plan        Plan
	steps       []int64
	validations []train.ValidationInfo
	warnings    []error
	onStep      func(train.StepInfo)
	onValidate  func(done int)
	scored      [2]int // pairs, of the last report, and of all
}

func (w *watcher) Started(p Plan) { w.plan = p }
func (w *watcher) Step(i train.StepInfo) {
	w.steps = append(w.steps, i.Step)
	if w.onStep != nil {
		w.onStep(i)
	}
}
func (w *watcher) Warning(err error) { w.warnings = append(w.warnings, err) }

func (w *watcher) Validating(what ValidationPhase, done, total int) {
	if what == Scoring {
		w.scored = [2]int{done, total}
		return
	}
	if w.onValidate != nil {
		w.onValidate(done)
	}
}
func (w *watcher) Validation(i train.ValidationInfo) { w.validations = append(w.validations, i) }

func request(c *config.Config, dir string, w *watcher) TrainRequest {
	return TrainRequest{Config: c, RunDir: dir, Env: runfs.Env{Host: "host", PID: os.Getpid()}, Now: time.Now,
		Observer: w}
}

// mustTrain runs a whole training run in a new directory.
func mustTrain(t *testing.T, c *config.Config) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if _, err := Train(t.Context(), request(c, dir, &watcher{})); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sameTensors compares the tensors of two checkpoints byte for byte.
func sameTensors(t *testing.T, got, want string) {
	t.Helper()
	a, b := openTensors(t, got), openTensors(t, want)
	if len(a.Names()) != len(b.Names()) || len(a.Names()) == 0 {
		t.Fatalf("%s has tensors %v, %s has %v", got, a.Names(), want, b.Names())
	}
	for _, name := range b.Names() {
		x, ok := a.Tensor(name)
		y, _ := b.Tensor(name)
		if !ok || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("tensor %s of %s differs from %s", name, got, want)
		}
	}
}

func openTensors(t *testing.T, path string) *safetensors.File {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func checkpoint(dir, name string) string { return filepath.Join(dir, runfs.CheckpointsName, name) }

// metrics returns the lines of metrics.jsonl without what depends on the clock.
func metrics(t *testing.T, dir string) (out []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, runfs.MetricsName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		for _, k := range []string{"time", "step_ms", "data_wait_ms", "captions_per_s", "seconds"} {
			delete(line, k)
		}
		b, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// wantError checks that an error has all the words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q lacks %q", err, w)
		}
	}
}

func wantIn(t *testing.T, text, part string, number int) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%d: %s lacks %s", number, text, part)
	}
}

func appendLine(t *testing.T, dir, line string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, runfs.MetricsName), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}
