package training_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/loss"
	"vsetrain/models"
)

// A run with a noise index trains other weights, keeps the file's SHA-256 in its records and checkpoints, ends after an
// interruption as the uninterrupted run does, and refuses another index, which the report tells apart.
func TestNoiseIndexOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "noise.npy")
	write := func(seed uint32) {
		try.Do(t, data.WriteNoise(path, data.NoisyCaptions(data.EqualGroups(40, 5), 0.4, seed)))
	}
	write(1)
	content := try.Get(os.ReadFile(path))(t)
	_, wrong, err := data.NoisyPairs(data.NoisyCaptions(data.EqualGroups(40, 5), 0.4, 1), data.EqualGroups(40, 5))
	try.Do(t, err)
	want := runfs.NoiseIndex{
		File:   "noise.npy",
		SHA256: fmt.Sprintf("%x", sha256.Sum256(content)),
		Wrong:  wrong,
		Of:     200,
	}
	clean := runtest.TinyConfig()
	c := runtest.TinyConfig()
	c.Data.NoiseIndex = path
	whole := runtest.Train(t, c)

	dir := filepath.Join(t.TempDir(), "run")
	w := &runtest.Watcher{}
	runtest.Interrupt(t, runtest.Request(c, dir, w), 7)
	if w.Plan.Noise == nil || *w.Plan.Noise != want {
		t.Errorf("the plan says %+v, want %+v", w.Plan.Noise, want)
	}
	r := runtest.Request(c, dir, &runtest.Watcher{})
	r.Resume = true
	write(2)
	_, err = training.Train(t.Context(), r)
	try.Fails(t, err, "last.safetensors was trained with", want.SHA256, "another with", "--run")
	write(1)
	try.Get(training.Train(t.Context(), r))(t)
	for _, name := range []string{runfs.BestName, runfs.LastName} {
		runtest.SameTensors(t, runtest.Checkpoint(dir, name), runtest.Checkpoint(whole, name))
		info, err := models.ReadInfo(runtest.Checkpoint(dir, name))
		if err != nil || info.Noise == nil || *info.Noise != want {
			t.Errorf("%s: noise index %+v, want %+v; %v", name, info.Noise, want, err)
		}
	}
	first := runtest.Train(t, clean)
	if a, b := runtest.Metrics(t, first)[0], runtest.Metrics(t, whole)[0]; a == b {
		t.Errorf("the first step is %s with wrong captions and without", a)
	}
}

// A noise index that does not fit is refused before anything is written.
func TestBadNoiseIndexOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "noise.npy")
	try.Do(t, data.WriteNoise(path, make([]int64, 12)))
	c := runtest.TinyConfig()
	c.Data.NoiseIndex = path
	dir := filepath.Join(t.TempDir(), "run")
	_, err := training.Train(t.Context(), runtest.Request(c, dir, &runtest.Watcher{}))
	try.Fails(t, err, path+": 12 entries, expected 200", "another split than", "vsetrain data noise")
	if _, err := os.Stat(filepath.Join(dir, runfs.ConfigName)); err == nil {
		t.Error("a run was begun")
	}
}

// A round of CRCL begins with the labels of the one before, which its warm-up epoch keeps, and takes them from a run on
// the same pairs alone.
func TestLabelsOfAnEarlierRound(t *testing.T) {
	lossWith := func(labels string) loss.Options {
		t.Helper()
		r := try.Get(config.Load(config.Request{Set: []string{"loss.name=crcl", "loss.warmup_epochs=1",
			"loss.crcl.labels=" + labels}}))(t)
		return r.Config.Loss
	}
	labelsOf := func(dir string) []float64 {
		t.Helper()
		c := try.Get(models.OpenCheckpoint(runtest.Checkpoint(dir, runfs.LastName)))(t)
		defer c.Close()
		labels, err := c.Doubles("optim/loss/labels")
		if err != nil || len(labels) != 200 {
			t.Fatal(len(labels), err)
		}
		return labels
	}
	c := runtest.TinyConfig()
	c.Loss, c.Train.Epochs = lossWith(""), 1
	first := runtest.Train(t, c)
	before := labelsOf(first)
	if slices.Min(before) == slices.Max(before) {
		t.Fatal("the first round learned no labels")
	}

	c.Loss = lossWith(runtest.Checkpoint(first, runfs.LastName))
	c.Seed++ // its own network
	for i, y := range labelsOf(runtest.Train(t, c)) {
		if want := before[i]; y != want && !(y == 0 && want < 0.1) {
			t.Errorf("caption %d: label %v after the warm-up epoch, was %v", i, y, want)
		}
	}

	c.Data.NoiseIndex = filepath.Join(t.TempDir(), "noise.npy")
	try.Do(t, data.WriteNoise(c.Data.NoiseIndex, data.NoisyCaptions(data.EqualGroups(40, 5), 0.4, 1)))
	runtest.Refuses(t, c, "loss crcl", "no noise index", "name a run with the noise index of this one")
	c.Data.NoiseIndex, c.Loss = "", lossWith(runtest.Checkpoint(first, runfs.BestName))
	runtest.Refuses(t, c, "loss crcl", "holds weights only", runfs.LastName)
}
