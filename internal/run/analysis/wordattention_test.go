package analysis

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"vsetrain/internal/files/npy"
	"vsetrain/internal/run/evaluate"
	"vsetrain/internal/run/pretrained"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// The words of a caption and the weights of a trained SAF: the same as in evaluation, over the boxes of the data set,
// or over a grid where it has none.
func TestAttendWords(t *testing.T) {
	c := runtest.TinyConfig()
	c.Data.Dir = runtest.CopyWorld(t)
	c.Model.Network, c.Model.TextEncoder, c.Train.Epochs, c.Train.MaxSteps = models.SAF, "bigru", 1, 3
	run := runtest.Train(t, c)
	r := pretrained.AnalysisRequest{Split: "test", Device: oneThread()}
	l, err := r.Load(run, false)
	try.Do(t, err)
	id, text := l.Split.ImageID(3), l.Split.Caption(15)
	captions := l.Split.NumCaptions()
	l.Close()
	file := filepath.Join(t.TempDir(), "s.npy")
	try.Get(evaluate.Run(t.Context(), evaluate.Request{Checkpoints: []string{run}, Split: "test", Batch: 16,
		Device: oneThread(), SaveScores: file}))(t)
	f := try.Get(npy.Open(file))(t)
	defer f.Close()
	scores := try.Get(f.Float64s())(t)
	for _, stored := range []bool{true, false} {
		if !stored {
			for _, name := range []string{"test_ims_bbx.npy", "test_ims_size.npy"} {
				try.Do(t, os.Remove(filepath.Join(c.Data.Dir, name)))
			}
		}
		all := try.Get(AttendWords(t.Context(), r, run, []string{id}))(t)
		a := all[0]
		if a.ImageID != id || a.Image != 3 || a.Caption != 15 || a.Text != text || a.Stored != stored ||
			a.AttendsWords {
			t.Fatalf("%+v", a)
		}
		if want := scores[3*captions+15]; math.Abs(a.Score-want) > 1e-6 {
			t.Errorf("score %v, evaluation has %v", a.Score, want)
		}
		words := make([]string, len(a.Words))
		for i := range a.Words {
			w := &a.Words[i]
			words[i] = w.Word
			sum := 0.0
			for _, s := range w.Scores {
				sum += s
			}
			if len(w.Scores) != 3 || len(w.Boxes) != 3 || math.Abs(sum-1) > 1e-5 {
				t.Errorf("%s: weights %v of boxes %v", w.Word, w.Scores, w.Boxes)
			}
			if m := w.Map(30, 20); slices.Max(m) != 1 {
				t.Errorf("%s: the map has %v at most", w.Word, slices.Max(m))
			}
		}
		if words[0] != "<start>" || words[len(words)-1] != "<end>" || len(words) < 4 {
			t.Errorf("words %q of %q", words, text)
		}
	}
	try.Refuses(AttendWords(t.Context(), r, run, []string{"nothing"}))(t, "no image with the id", id[:1])
	plain := runtest.TinyConfig()
	plain.Train.MaxSteps = 1
	_, err = AttendWords(t.Context(), r, runtest.Train(t, plain), []string{id})
	try.Fails(t, err, "network vsepp has one vector per caption; only the words of [saf sgr gsmn scan]")
	if got := gridBoxes(5); len(got) != 20 || got[18] != 2./3 || got[19] != 1 {
		t.Errorf("five cells: %v", got)
	}
}
