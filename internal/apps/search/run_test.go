package search

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"vsetrain/data/synth"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// makeWorld is a synthetic data set of 12 test images.
func makeWorld(t *testing.T, seed uint64) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "world")
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim, o.Seed = 40, 12, 12, 4, 16, seed
	try.Do(t, synth.Generate(dir, o, nil))
	return dir
}

// trainRun trains for one epoch in a world.
func trainRun(t *testing.T, world string, change func(*models.Options)) string {
	t.Helper()
	c := config.Default()
	c.Data.Dir = world
	c.Model.EmbedDim, c.Model.WordDim = 16, 8
	c.Loss.Name = "lmh"
	c.Optim.LR = 5e-3
	c.Train.Epochs, c.Train.Batch, c.Train.ValStep, c.Train.LogStep = 1, 16, 0, 10
	c.Device.Threads = 1
	change(&c.Model)
	dir := filepath.Join(t.TempDir(), "run")
	try.Get(training.Train(t.Context(), training.Request{Config: &c, RunDir: dir,
		Env: runfs.Env{Host: "host", PID: os.Getpid()}, Now: time.Now}))(t)
	return dir
}

func gsmnWithNeighbors(m *models.Options) {
	m.Network, m.TextEncoder, m.EmbedDim = models.GSMN, "bigru", 32
	m.GSMN.Neighbors = "true"
}

// Runs whose scores are no dot products, and one that reads the dependencies of captions: each query has its row or
// column of the score matrix, and a run knows its data set.
func TestRunsAgreeWithTheirMatrix(t *testing.T) {
	world := makeWorld(t, 1)
	for name, change := range map[string]func(*models.Options){
		"order":     func(m *models.Options) { m.VSEPP.Measure, m.VSEPP.UseAbs = "order", true },
		"neighbors": gsmnWithNeighbors,
	} {
		t.Run(name, func(t *testing.T) {
			run := trainRun(t, world, change)
			x := open(t, Options{Checkpoints: []string{run}})
			short := open(t, Options{Checkpoints: []string{run},
				Shortlist: trainRun(t, world, func(*models.Options) {}), Depth: 5})
			s := try.Get(x.members[0].all(t.Context(), x.pool))(t)
			n, m := s.Dims()
			near := func(what string, a Answer, err error, want func(int) float64) {
				t.Helper()
				try.Do(t, err)
				checkHits(t, what, a.Hits, a.Scored, want, 1e-6)
			}
			for c := range m {
				column := func(i int) float64 { return s.At(i, c) }
				for _, x := range []*Index{x, short} {
					a, err := x.OfCaption(t.Context(), c, n)
					near(fmt.Sprintf("caption %d", c), a, err, column)
				}
				a, err := x.Text(t.Context(), x.Caption(c), n)
				if name == "neighbors" {
					try.Fails(t, err, "dependencies between the words")
					continue
				}
				near(fmt.Sprintf("caption %d typed", c), a, err, column)
			}
			for i := range n {
				for _, x := range []*Index{x, short} {
					a, err := x.OfImage(t.Context(), i, m)
					near(fmt.Sprintf("image %d", i), a, err, func(c int) float64 { return s.At(i, c) })
				}
			}
		})
	}
}

// Members that were trained on different data do not search together.
func TestMembersOfOtherData(t *testing.T) {
	embedder := func(m *models.Options) {}
	a, b := trainRun(t, makeWorld(t, 1), embedder), trainRun(t, makeWorld(t, 2), embedder)
	for _, o := range []Options{{Checkpoints: []string{a, b}}, {Checkpoints: []string{a}, Shortlist: b}} {
		try.Refuses(Open(o))(t, "an ensemble needs the same images and captions")
	}
}
