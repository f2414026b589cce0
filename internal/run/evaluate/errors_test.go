package evaluate

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/npy"
	"vsetrain/internal/files/runfs"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

func TestEvalErrors(t *testing.T) {
	t.Setenv("VSETRAIN_CUDA_DRIVER", "/nowhere/libcuda.so.1") // also where there is a GPU
	run := runtest.Train(t, runtest.TinyConfig())
	good := Request{Checkpoints: []string{run}, Split: "test", Protocol: eval.Auto, Device: device.DefaultOptions()}
	short := filepath.Join(t.TempDir(), "short.safetensors")
	b := try.Get(os.ReadFile(runtest.Checkpoint(run, runfs.BestName)))(t)
	try.Do(t, os.WriteFile(short, b[:len(b)/2], 0o666))
	wide, tall := filepath.Join(t.TempDir(), "wide.npy"), filepath.Join(t.TempDir(), "tall.npy")
	turned, broken := filepath.Join(t.TempDir(), "turned.npy"), filepath.Join(t.TempDir(), "broken.npy")
	split := try.Get(data.Open(runtest.World, "test", data.OpenOptions{}))(t)
	defer split.Close()
	try.Do(t, npy.WriteFloat32(broken, []int{2, 4}, []float32{0, 1, 2, 3, 4, 5, float32(math.NaN()), 7}))
	for path, shape := range map[string][]int{wide: {2, 3}, tall: {3, 6},
		turned: {split.NumCaptions(), split.NumImages()}} {
		try.Do(t, npy.WriteFloat32(path, shape, make([]float32, shape[0]*shape[1])))
	}
	for _, c := range []struct {
		name   string
		change func(*Request)
		words  []string
	}{
		{"no such path", func(r *Request) { r.Checkpoints = []string{"nowhere/best.safetensors"} },
			[]string{"checkpoint nowhere/best.safetensors: no such file or directory"}},
		{"empty folder", func(r *Request) { r.Checkpoints = []string{t.TempDir()} },
			[]string{"no checkpoint in this directory", "best.safetensors"}},
		{"another kind of file", func(r *Request) {
			r.Checkpoints = []string{filepath.Join(runtest.World,
				"vocab.json")}
		},
			[]string{"vocab.json", "not a checkpoint", ".pth.tar"}},
		{"half a file", func(r *Request) { r.Checkpoints, r.Data = []string{short}, runtest.World },
			[]string{short, "truncated"}},
		{"no data", func(r *Request) {
			r.Checkpoints = []string{filepath.Join(runtest.Fixture, runtest.FixtureCheckpoints[0])}
		},
			[]string{"--data"}},
		{"another split", func(r *Request) { r.Split = "val" }, []string{"val"}},
		{"another data set", func(r *Request) { r.Data = filepath.Join(runtest.Fixture, "data") },
			[]string{"trained on features of 3 x 16", "36 x 8"}},
		{"another vocabulary", func(r *Request) { r.Vocab = filepath.Join(runtest.Fixture, "data", "vocab.json") },
			[]string{"another vocabulary", "--vocab"}},
		{"cuda", func(r *Request) { r.Device.Kind = "cuda" }, []string{"device.kind cuda", "/nowhere/libcuda.so.1",
			"set device.kind to auto or cpu"}},
		{"negative batch", func(r *Request) { r.Batch = -1 }, []string{"batch"}},
		{"scores of another split beside a checkpoint", func(r *Request) { r.Scores = []string{tall} },
			[]string{tall, "3 images x 6 captions", "split test", "images and", "in file order"}},
		{"scores of another split", func(r *Request) {
			r.Checkpoints, r.Data, r.Scores = nil, runtest.World, []string{tall}
		},
			[]string{tall, "3 images x 6 captions", "split test of " + runtest.World}},
		{"scores that no split has", func(r *Request) { r.Checkpoints, r.Scores = nil, []string{wide} },
			[]string{wide, "2 images x 3 captions", "the same number of captions for every image", "--data DIR"}},
		{"scores of two splits", func(r *Request) { r.Checkpoints, r.Scores = nil, []string{tall, wide} },
			[]string{wide, "2 images x 3 captions", "tall.npy has 3 x 6"}},
		{"transposed scores", func(r *Request) {
			r.Checkpoints, r.Data, r.Scores = nil, runtest.World,
				[]string{turned}
		},
			[]string{turned, "this is the transpose; expected a row for each image"}},
		{"scores that are no numbers", func(r *Request) { r.Checkpoints, r.Scores = nil, []string{broken} },
			[]string{broken + ": the score of image 1 and caption 2 is NaN; expected a number"}},
		{"ranks in another format", func(r *Request) { r.SaveRanks = "ranks.xlsx" },
			[]string{"ranks.xlsx", ".csv, .pth or .pth.tar"}},
		{"scores in a missing folder", func(r *Request) {
			r.SaveScores = filepath.Join(t.TempDir(), "no", "s.npy")
		}, []string{"s.npy"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good
			c.change(&r)
			_, err := Run(t.Context(), r)
			try.Fails(t, err, c.words...)
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

// Models of different data are refused before anything is embedded.
func TestEnsembleOfDifferentData(t *testing.T) {
	run := runtest.Train(t, runtest.TinyConfig())
	c := runtest.TinyConfig()
	c.Data.Dir = runtest.CopyWorld(t)
	other := runtest.Train(t, c)
	caps := filepath.Join(c.Data.Dir, "test_caps.txt")
	b := try.Get(os.ReadFile(caps))(t)
	first, rest, _ := strings.Cut(string(b), "\n")
	try.Do(t, os.WriteFile(caps, []byte(first+" again\n"+rest), 0o666))
	r := Request{Checkpoints: []string{run, other}, Split: "test", Device: device.DefaultOptions()}
	r.Progress = func(phase string, _, _ int) { t.Errorf("%s: an ensemble of different captions was begun", phase) }
	try.Refuses(Run(t.Context(), r))(t, run+" is applied to split test of "+runtest.World,
		other+" to split test of "+c.Data.Dir, "name one data set for all with --data")
	r.Data, r.Progress = runtest.World, nil
	rep := try.Get(Run(t.Context(), r))(t)
	if m := rep.Measured; len(m) != 2 || m[1].Run != other ||
		*m[1].Seed != c.Seed || m[1].Loss != c.Loss.Name || rep.Data != runtest.World {
		t.Errorf("measured %+v", rep)
	}
}

// What makes recalls doubtful is told: words that the vocabulary lacks, and features of another data set, of which the
// size alone is known.
func TestEvalNotes(t *testing.T) {
	c := runtest.TinyConfig()
	c.Train.MaxSteps = 1
	run := runtest.Train(t, c)
	other := runtest.CopyWorld(t)
	path := filepath.Join(other, "test_caps.txt")
	b := try.Get(os.ReadFile(path))(t)
	captions := strings.SplitAfter(string(b), "\n")
	captions[0] = "quetzalcoatl xylophones\n"
	try.Do(t, os.WriteFile(path, []byte(strings.Join(captions, "")), 0o666))
	measured := func(data string) Measured {
		rep := try.Get(Run(t.Context(), Request{Checkpoints: []string{run}, Data: data, Split: "test", Batch: 16,
			Device: c.Device}))(t)
		return rep.Measured[0]
	}
	counted := func(dir string) data.SplitReport { // by `vsetrain data check`
		r := try.Get(data.Check(dir, data.CheckOptions{Vocab: "auto", SampleRows: 1}))(t)
		return r.Splits[slices.IndexFunc(r.Splits, func(s data.SplitReport) bool { return s.Name == "test" })]
	}
	own, want := measured(""), counted(runtest.World)
	if own.Foreign || own.Unknown != want.Unknown || own.Words != want.Words || own.Unknown == 0 ||
		len(own.Notes()) != 1 {
		t.Errorf("on its own data: %+v, %q", own, own.Notes())
	}
	if same := measured(runtest.World); same.Foreign {
		t.Errorf("on its own data, named: %+v", same)
	}
	m := measured(other)
	notes := m.Notes()
	want = counted(other)
	if !m.Foreign || m.Unknown != want.Unknown || m.Unknown == own.Unknown || len(notes) != 2 ||
		!strings.Contains(notes[0], "% of the words of the captions are unknown to its vocabulary") ||
		!strings.Contains(notes[1], "only in size (3 x 16)") {
		t.Errorf("%+v, %q", m, notes)
	}
}
