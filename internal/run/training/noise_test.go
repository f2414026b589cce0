package training_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"vsetrain/data"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/runtest"
	"vsetrain/internal/run/training"
	"vsetrain/models"
)

// A run with a noise index trains other weights, keeps the file's SHA-256 in its records and checkpoints, ends after an
// interruption as the uninterrupted run does, and refuses another index, which the report tells apart.
func TestNoiseIndexOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "noise.npy")
	write := func(seed uint32) {
		if err := data.WriteNoise(path, data.NoisyCaptions(200, 5, 0.4, seed)); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, wrong, err := data.NoisyPairs(data.NoisyCaptions(200, 5, 0.4, 1), 200, 5)
	if err != nil {
		t.Fatal(err)
	}
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
	runtest.WantError(t, err, "last.safetensors was trained with", want.SHA256, "another with", "--run")
	write(1)
	if _, err := training.Train(t.Context(), r); err != nil {
		t.Fatal(err)
	}
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
	if err := data.WriteNoise(path, make([]int64, 12)); err != nil {
		t.Fatal(err)
	}
	c := runtest.TinyConfig()
	c.Data.NoiseIndex = path
	dir := filepath.Join(t.TempDir(), "run")
	_, err := training.Train(t.Context(), runtest.Request(c, dir, &runtest.Watcher{}))
	runtest.WantError(t, err, path+": 12 entries, expected 200", "another split than", "vsetrain data noise")
	if _, err := os.Stat(filepath.Join(dir, runfs.ConfigName)); err == nil {
		t.Error("a run was begun")
	}
}
