// Package runtest contains what tests of runs share: a synthetic data set, a configuration that trains on it in a
// moment, an observer, and comparisons of what runs leave.
package runtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vsetrain/data/synth"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/files/safetensors"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/placement"
	"vsetrain/internal/run/training"
	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/semantic"
	"vsetrain/train"
)

// OnEmulator makes device.kind cuda and auto use the emulated driver, with or without cuBLAS.
func OnEmulator(t *testing.T, blas bool) {
	t.Helper()
	path := emulator.Library(t)
	t.Setenv("VSETRAIN_CUDA_DRIVER", path)
	t.Setenv("VSETRAIN_CUBLAS", "/nowhere/libcublas.so.12")
	if blas {
		t.Setenv("VSETRAIN_CUBLAS", path)
	}
}

// World is a synthetic data set of 40 images and 200 captions with semantic vectors, made once.
var World string

// NoDriver is the path of a driver that does not exist.
const NoDriver = "/nowhere/libcuda.so.1"

// Main makes World, hides GPUs, runs the tests of a package and returns their exit code.
func Main(run func() int) int {
	os.Setenv("VSETRAIN_CUDA_DRIVER", NoDriver) // the CPU, also where there is a GPU
	dir, err := os.MkdirTemp("", "runtest")
	if err == nil {
		defer os.RemoveAll(dir)
		World, err = makeWorld(filepath.Join(dir, "world"))
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

// CopyWorld returns a copy of World without a manifest, which a test may change.
func CopyWorld(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "world")
	err := os.CopyFS(dir, os.DirFS(World))
	try.Do(t, errors.Join(err, os.Remove(filepath.Join(dir, integrity.ManifestName))))
	return dir
}

// TinyConfig trains VSE++ with LSEH for two epochs of 13 batches, the last of them incomplete.
func TinyConfig() *config.Config {
	c := config.Default()
	c.Data.Dir = World
	c.Model.EmbedDim, c.Model.WordDim, c.Model.VSRN.Hidden = 16, 8, 16
	c.Loss.Name = loss.LSEH
	c.Optim.LR, c.Optim.LRUpdate = 5e-3, 1
	c.Train.Epochs, c.Train.Batch, c.Train.ValStep, c.Train.LogStep = 2, 16, 5, 1
	c.Device.Threads = 1
	return &c
}

// Watcher is an Observer that counts, and interrupts a run.
type Watcher struct {
	Plan        training.Plan
	Steps       []int64
	Losses      []float64 // of the steps
	Validations []train.ValidationInfo
	Warnings    []error
	OnStep      func(train.StepInfo)
	OnValidate  func(done int)
	Scored      [2]int // pairs, of the last report, and of all
}

// Started, Step, Warning, Validating and Validation record what they receive.
func (w *Watcher) Started(p training.Plan) { w.Plan = p }

func (w *Watcher) Step(i train.StepInfo) {
	w.Steps, w.Losses = append(w.Steps, i.Step), append(w.Losses, i.StepResult.Loss)
	if w.OnStep != nil {
		w.OnStep(i)
	}
}

func (w *Watcher) Warning(err error) { w.Warnings = append(w.Warnings, err) }

func (w *Watcher) Validating(what training.ValidationPhase, done, total int) {
	if what == training.Scoring {
		w.Scored = [2]int{done, total}
		return
	}
	if w.OnValidate != nil {
		w.OnValidate(done)
	}
}

func (w *Watcher) Validation(i train.ValidationInfo) { w.Validations = append(w.Validations, i) }

// Request returns a request for a training in a directory.
func Request(c *config.Config, dir string, w *Watcher) training.Request {
	return training.Request{Config: c, RunDir: dir, Env: runfs.Env{Host: "host", PID: os.Getpid()}, Now: time.Now,
		Observer: w}
}

// Train runs a whole training run in a new directory.
func Train(t *testing.T, c *config.Config) string {
	t.Helper()
	return Watch(t, c).Plan.RunDir
}

// Watch is Train, and returns what the observer recorded.
func Watch(t *testing.T, c *config.Config) *Watcher {
	t.Helper()
	w := &Watcher{}
	try.Get(training.Train(t.Context(), Request(c, filepath.Join(t.TempDir(), "run"), w)))(t)
	return w
}

// Refuses checks that a training in a new directory fails with an error that contains the words.
func Refuses(t *testing.T, c *config.Config, words ...string) {
	t.Helper()
	_, err := training.Train(t.Context(), Request(c, filepath.Join(t.TempDir(), "run"), &Watcher{}))
	try.Fails(t, err, words...)
}

// Interrupt trains until a step is done and stops the run there. The observer of the request must be a Watcher.
func Interrupt(t *testing.T, r training.Request, step int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := r.Observer.(*Watcher)
	defer func(before func(train.StepInfo)) { w.OnStep = before }(w.OnStep)
	w.OnStep = func(i train.StepInfo) {
		if i.Step == step {
			cancel()
		}
	}
	if _, err := training.Train(ctx, r); !errors.Is(err, train.ErrInterrupted) {
		t.Fatalf("ended with %v, want an interruption after step %d", err, step)
	}
}

// Resume trains an interrupted run to its end.
func Resume(t *testing.T, r training.Request) {
	t.Helper()
	r.Resume = true
	try.Get(training.Train(t.Context(), r))(t)
}

// SameTensors compares the tensors of two checkpoints byte for byte.
func SameTensors(t *testing.T, got, want string) {
	t.Helper()
	a, b := OpenTensors(t, got), OpenTensors(t, want)
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

// OpenTensors opens a checkpoint until the test ends.
func OpenTensors(t *testing.T, path string) *safetensors.File {
	t.Helper()
	f := try.Get(safetensors.Open(path))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// Checkpoint is the path of a checkpoint of a run.
func Checkpoint(dir, name string) string { return filepath.Join(dir, runfs.CheckpointsName, name) }

// Metrics returns the lines of the log of a run without what depends on the clock; the log must exist.
func Metrics(t *testing.T, dir string) []string {
	t.Helper()
	return try.Get(readMetrics(dir))(t)
}

// readMetrics returns the lines of metrics.jsonl without what depends on the clock.
func readMetrics(dir string) (out []string, err error) {
	f, err := os.Open(filepath.Join(dir, runfs.MetricsName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		line := map[string]any{}
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			return nil, err
		}
		for _, k := range []string{"time", "step_ms", "data_wait_ms", "captions_per_s", "seconds"} {
			delete(line, k)
		}
		b, err := json.Marshal(line)
		if err != nil {
			return nil, err
		}
		out = append(out, string(b))
	}
	return out, nil
}

// WantIn checks that a text contains a part the given number of times.
func WantIn(t *testing.T, text, part string, number int) {
	t.Helper()
	if !strings.Contains(text, part) {
		t.Errorf("%d: %s lacks %s", number, text, part)
	}
}

// AppendLine appends a line to the log of a run.
func AppendLine(t *testing.T, dir, line string) {
	t.Helper()
	f := try.Get(os.OpenFile(filepath.Join(dir, runfs.MetricsName), os.O_APPEND|os.O_WRONLY, 0))(t)
	defer f.Close()
	try.Get(f.WriteString(line + "\n"))(t)
}

// SetNetwork chooses a network with its published text encoder, a recurrent one where it has several.
func SetNetwork(c *config.Config, network string) {
	c.Model.Network, c.Model.SGRAF.SimDim = network, 6
	for _, encoder := range c.Model.Traits().TextEncoders {
		if c.Model.TextEncoder = encoder; encoder != models.TextBert {
			return
		}
	}
}

// Worst is the largest difference between two lists of the same length.
func Worst(a, b []float64) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	d := 0.0
	for i := range a {
		d = math.Max(d, math.Abs(a[i]-b[i]))
	}
	return d
}

// TakenMemory is the memory that a device uses before any allocation.
func TakenMemory(t *testing.T) int {
	t.Helper()
	d := try.Get(placement.Open(device.Options{Kind: "cuda", Precision: "fp32"}, "", nil))(t)
	defer d.Close()
	free, total, err := d.(device.Resident).FreeMemory()
	try.Do(t, err)
	return int(total - free)
}

// FixtureOf returns the folder of a fixture: a checkpoint of a reference repository, its data, and the scores that
// PyTorch computed from them.
func FixtureOf(network string) string { return filepath.Join("../../../testdata/torch", network) }

// The fixture of VSE++, with its checkpoint in two formats of PyTorch, and the fixture of BERT.
var (
	Fixture            = FixtureOf("vsepp")
	FixtureCheckpoints = []string{"checkpoint.pth.tar", "checkpoint_legacy.pth.tar"}
	BertFixture        = FixtureOf("vseinf-bert")
)
