package experiment

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/files/runfs"
	"vsetrain/models"
	"vsetrain/semantic"
	"vsetrain/train"
)

// FalseNegatives says how like their anchors the negatives of training batches are under one checkpoint, by the
// semantic vectors of the captions. A hard negative is the one with the largest hinge, as training takes it: for an
// image a caption, for a caption an image. One whose semantic similarity is at least FalseSimilarity is called false:
// it describes much the same.
type FalseNegatives struct {
	Checkpoint  string  `json:"checkpoint"` // its file's name
	Epoch       float64 `json:"epoch"`
	Step        int64   `json:"step"`
	Hard        int     `json:"hard"`            // hard negatives looked at
	HardSimilar float64 `json:"hard_similarity"` // their mean semantic similarity
	AllSimilar  float64 `json:"all_similarity"`  // that of all negatives of the batches
	HardFalse   float64 `json:"hard_false"`      // percent of the hard negatives that are false
	AllFalse    float64 `json:"all_false"`       // percent of all negatives
}

// FalseSimilarity is the semantic similarity from which a negative is called false.
const FalseSimilarity = 0.5

// falseBatches is how many batches of the first epoch are looked at.
const falseBatches = 16

// MeasureFalseNegatives looks at every checkpoint in a run directory, the earliest epoch first, on the same batches of
// the training split. It returns nil without an error where the training split has no semantic vectors.
func MeasureFalseNegatives(ctx context.Context, r AnalysisRequest, dir string) ([]FalseNegatives, error) {
	r.Split = "train"
	folder := filepath.Join(dir, runfs.CheckpointsName)
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("false negatives: %w", err)
	}
	var out []FalseNegatives
	for _, e := range files {
		if e.IsDir() || filepath.Ext(e.Name()) != ".safetensors" {
			continue
		}
		f, ok, err := falseNegatives(ctx, r, dir, filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("false negatives: %w", err)
		}
		if !ok {
			return nil, nil
		}
		r.Warn = nil // the others would say the same
		if slices.ContainsFunc(out, func(o FalseNegatives) bool { return o.Step == f.Step }) {
			continue // the last weights are often the best ones
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b FalseNegatives) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return out, nil
}

func falseNegatives(ctx context.Context, r AnalysisRequest, dir, file string) (f FalseNegatives, ok bool, err error) {
	cfg, err := loadRun(dir)
	if err != nil {
		return f, false, err
	}
	w, err := models.OpenWeights(file)
	if err != nil {
		return f, false, err
	}
	f.Checkpoint = filepath.Base(file)
	f.Epoch, f.Step, _ = w.Progress()
	w.Close()
	l, err := r.load(file, false)
	if err != nil {
		return f, false, err
	}
	defer l.Close()
	size := min(cfg.Train.Batch, l.Split.NumCaptions())
	s, err := data.NewSampler(l.Split.NumCaptions(), size, cfg.Seed, cfg.Train.Shuffle, true)
	if err != nil {
		return f, false, err
	}
	all := 0
	for i := range min(falseBatches, s.BatchesPerEpoch()) {
		h := &hardest{HardestRequest: HardestRequest{AnalysisRequest: r}, captions: slices.Clone(s.Batch(0, i))}
		scores, err := batchScores(ctx, l, h.captions)
		if err != nil {
			return f, false, err
		}
		images := make([]int32, len(h.captions))
		for j, c := range h.captions {
			images[j] = int32(l.Split.ImageOf(int(c)))
		}
		margins, similar, err := h.margins(l, &cfg.Config.Loss, images)
		if err != nil {
			return f, false, err
		}
		if similar == nil {
			return f, false, nil
		}
		all += f.add(scores, margins, similar, images)
		r.Warn = nil
	}
	f.finish(all)
	return f, true, nil
}

// add counts one batch: scores, margins and semantic similarities [n, n], row i the image of caption i. It returns the
// number of negatives.
func (f *FalseNegatives) add(scores, margins, similar []float64, images []int32) (all int) {
	n := len(images)
	row, column := make([]int, n), make([]int, n) // the hard negative of each anchor
	for i := range n {
		row[i], column[i] = -1, -1
	}
	hinge := func(at, match int) float64 { return margins[at] + scores[at] - scores[match*n+match] }
	for i := range n {
		for c := range n {
			at := i*n + c
			if images[i] == images[c] {
				continue
			}
			all++
			f.AllSimilar += similar[at]
			if similar[at] >= FalseSimilarity {
				f.AllFalse++
			}
			if row[i] < 0 || hinge(at, i) > hinge(row[i], i) {
				row[i] = at
			}
			if column[c] < 0 || hinge(at, c) > hinge(column[c], c) {
				column[c] = at
			}
		}
	}
	for _, at := range append(row, column...) {
		if at < 0 {
			continue
		}
		f.Hard++
		f.HardSimilar += similar[at]
		if similar[at] >= FalseSimilarity {
			f.HardFalse++
		}
	}
	return all
}

// finish turns sums into means.
func (f *FalseNegatives) finish(all int) {
	hard := math.Max(1, float64(f.Hard))
	f.HardSimilar, f.HardFalse = f.HardSimilar/hard, 100*f.HardFalse/hard
	f.AllSimilar, f.AllFalse = f.AllSimilar/math.Max(1, float64(all)), 100*f.AllFalse/math.Max(1, float64(all))
}

// openSimilarities finds the semantic vectors by which false negatives are counted while a run trains: those of its
// loss, or for another loss those that the data set has. Without any nothing is counted.
func (t *setup) openSimilarities() {
	if store, ok := t.semantics.(*semantic.Store); ok {
		t.similar = store
		return
	}
	path, err := semanticsPath(t.cfg.Data, &t.cfg.Loss)
	if err != nil {
		return // there are none
	}
	store, err := semantic.Open(path, semantic.OpenOptions{Captions: t.train.NumCaptions(),
		CaptionFile: t.train.CaptionPath(), Warn: t.warn})
	if err != nil {
		t.warn(fmt.Errorf("false hard negatives are not counted: %w", err))
		return
	}
	t.similar, t.semantics = store, store
}

// falseNegatives looks at the batch of the last step; nil without semantic vectors.
func (t *setup) falseNegatives(b train.Scored) (*FalseNegatives, error) {
	if t.similar == nil || len(b.Scores) == 0 {
		return nil, nil
	}
	n, dim := len(b.Captions), t.similar.RowLen()
	vectors, images := make([]float32, n*dim), make([]int32, n)
	for i, c := range b.Captions {
		if err := t.similar.ReadRow(vectors[i*dim:(i+1)*dim], int(c)); err != nil {
			return nil, err
		}
		images[i] = int32(t.train.ImageOf(int(c)))
	}
	scores, margins := make([]float64, n*n), make([]float64, n*n)
	for i, v := range b.Scores {
		scores[i], margins[i] = float64(v), b.Constant
		if b.Margins != nil {
			margins[i] = float64(b.Margins[i])
		}
	}
	f := &FalseNegatives{}
	f.finish(f.add(scores, margins, similarities(vectors, n, dim, t.cfg.Loss.LSEH.Similarity == "cosine"), images))
	return f, nil
}

// similarities returns the semantic similarities [n, n] of vectors [n, dim] as LSEH defines them: inner products over
// the largest of their row, or cosines.
func similarities(vectors []float32, n, dim int, cosine bool) []float64 {
	out := make([]float64, n*n)
	for i := range n {
		x := vectors[i*dim : (i+1)*dim]
		for j := i; j < n; j++ {
			sum := 0.0
			for k, v := range vectors[j*dim : (j+1)*dim] {
				sum += float64(x[k]) * float64(v)
			}
			out[i*n+j], out[j*n+i] = sum, sum
		}
	}
	scale := make([]float64, n)
	for i := range n {
		scale[i] = slices.Max(out[i*n : (i+1)*n])
		if cosine {
			scale[i] = math.Sqrt(out[i*n+i])
		}
		if scale[i] == 0 {
			scale[i] = 1
		}
	}
	for i := range n {
		for j := range n {
			out[i*n+j] /= scale[i]
			if cosine {
				out[i*n+j] /= scale[j]
			}
		}
	}
	return out
}
