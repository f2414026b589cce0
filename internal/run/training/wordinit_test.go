package training_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/data/text"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/checkpoints"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// writeVectors writes vectors of size values for every third word of the world's vocabulary, and returns the file, the
// vocabulary and the vectors by word.
func writeVectors(t *testing.T, size int) (path string, v *text.Vocabulary, rows map[int][]float32) {
	t.Helper()
	v = try.Get(text.LoadVocabulary(filepath.Join(runtest.World, "vocab.json")))(t)
	var b strings.Builder
	rows = map[int][]float32{}
	for i := 4; i < v.Len(); i += 3 {
		b.WriteString(v.Word(int32(i)))
		for j := range size {
			x := float32(i)/64 - float32(j)/16
			rows[i] = append(rows[i], x)
			fmt.Fprintf(&b, " %v", x)
		}
		b.WriteString("\n")
	}
	path = filepath.Join(t.TempDir(), "vectors.txt")
	try.Do(t, os.WriteFile(path, []byte(b.String()), 0o666))
	return path, v, rows
}

// A run starts with the vectors of a file, says how many words it found, keeps the file's SHA-256 in its records and
// checkpoints, goes on without the file after an interruption, and ends as the uninterrupted run does. Frozen vectors
// stay as they were.
func TestWordVectorsOfARun(t *testing.T) {
	for _, frozen := range []bool{false, true} {
		path, v, rows := writeVectors(t, 8)
		content := try.Get(os.ReadFile(path))(t)
		c := runtest.TinyConfig()
		c.Model.WordInit, c.Model.WordFrozen = path, frozen
		whole := runtest.Train(t, c)

		dir := filepath.Join(t.TempDir(), "run")
		w := &runtest.Watcher{}
		runtest.Interrupt(t, runtest.Request(c, dir, w), 7)
		sum := sha256.Sum256(content)
		want := models.Words{File: "vectors.txt", SHA256: hex.EncodeToString(sum[:]), Found: len(rows), Of: v.Len()}
		if w.Plan.Words == nil || *w.Plan.Words != want {
			t.Errorf("the plan says %+v, want %+v", w.Plan.Words, want)
		}
		try.Do(t, os.Remove(path))
		runtest.Resume(t, runtest.Request(c, dir, &runtest.Watcher{}))
		for _, name := range []string{runfs.BestName, runfs.LastName} {
			runtest.SameTensors(t, runtest.Checkpoint(dir, name), runtest.Checkpoint(whole, name))
			info, err := models.ReadInfo(runtest.Checkpoint(dir, name))
			if err != nil || info.Words == nil || *info.Words != want {
				t.Errorf("%s: word vectors of %+v, want %+v; %v", name, info.Words, want, err)
			}
		}
		sessions, err := runfs.ReadSessions(dir)
		if err != nil || len(sessions) != 2 || sessions[0].WordInit != want.SHA256 ||
			sessions[1].WordInit != want.SHA256 {
			t.Errorf("sessions %+v, %v; want two with %s", sessions, err, want.SHA256)
		}
		f := runtest.OpenTensors(t, runtest.Checkpoint(dir, runfs.LastName))
		table := make([]float32, v.Len()*8)
		try.Do(t, f.Float32s("txt.embed.weight", table))
		moved := 0
		for i, row := range rows {
			for j, x := range row {
				if table[i*8+j] != x {
					moved++
				}
			}
		}
		_, moments := f.Tensor("optim/m/txt.embed.weight")
		if frozen && (moved > 0 || moments) || !frozen && (moved == 0 || !moments) {
			t.Errorf("frozen %v: %d values moved, moments %v", frozen, moved, moments)
		}
	}
}

// The average of checkpoints says where their word vectors came from.
func TestWordVectorsAreKeptByCopies(t *testing.T) {
	path, _, _ := writeVectors(t, 8)
	c := runtest.TinyConfig()
	c.Model.WordInit, c.Train.Epochs = path, 1
	dir := runtest.Train(t, c)
	out := filepath.Join(t.TempDir(), "average.safetensors")
	files := []string{runtest.Checkpoint(dir, runfs.BestName), runtest.Checkpoint(dir, runfs.LastName)}
	_, _, err := checkpoints.Average(checkpoints.AverageRequest{Checkpoints: files, Out: out})
	try.Do(t, err)
	a := try.Get(models.ReadInfo(runtest.Checkpoint(dir, runfs.BestName)))(t)
	b, err := models.ReadInfo(out)
	if err != nil || a.Words == nil || b.Words == nil || *a.Words != *b.Words {
		t.Errorf("the average has word vectors of %+v, the checkpoints of %+v; %v", b.Words, a.Words, err)
	}
}

// Settings that cannot go together and files that do not fit are refused before anything is written.
func TestBadWordVectorsOfARun(t *testing.T) {
	path, _, _ := writeVectors(t, 5)
	for name, c := range map[string]struct {
		set  func(c *config.Config)
		want []string
	}{
		"width":   {func(c *config.Config) {}, []string{"vectors.txt:1: vectors of 5 values", "model.word_dim is 8"}},
		"missing": {func(c *config.Config) { c.Model.WordInit = "no.txt" }, []string{"no.txt: no such file"}},
		"both": {func(c *config.Config) { c.Train.InitFrom = "run" },
			[]string{"model.word_init and train.init_from"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg, dir := runtest.TinyConfig(), filepath.Join(t.TempDir(), "run")
			cfg.Model.WordInit = path
			c.set(cfg)
			try.Refuses(training.Train(t.Context(), runtest.Request(cfg, dir, &runtest.Watcher{})))(t, c.want...)
			if _, err := os.Stat(filepath.Join(dir, runfs.ConfigName)); err == nil {
				t.Error("a configuration was written")
			}
		})
	}
	cfg := runtest.TinyConfig()
	cfg.Model.Network, cfg.Model.TextEncoder, cfg.Model.WordInit = models.VSEInf, models.TextBert, path
	try.Fails(t, cfg.Validate(), "model.word_init", "text_encoder bert")
	if b := config.Marshal(cfg); !bytes.Contains(b, []byte("word_init: ")) {
		t.Errorf("the configuration does not say where word vectors come from:\n%s", b)
	}
}
