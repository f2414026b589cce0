package analysis

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
	"vsetrain/train"
)

// FalseNegatives counts the false negatives in training batches under one checkpoint.
type FalseNegatives struct {
	Checkpoint string  `json:"checkpoint"` // its file's name
	Epoch      float64 `json:"epoch"`
	Step       int64   `json:"step"`
	train.FalseNegatives
}

// falseBatches is the number of batches of the first epoch that are examined.
const falseBatches = 16

// MeasureFalseNegatives examines the same training batches under every checkpoint in a run directory, the earliest
// epoch first. It returns nil without an error if the training split has no semantic vectors.
func MeasureFalseNegatives(ctx context.Context, r pretrained.AnalysisRequest, dir string) ([]FalseNegatives, error) {
	r.Split = "train"
	files, err := checkpointsOf(dir)
	if err != nil {
		return nil, fmt.Errorf("false negatives: %w", err)
	}
	var out []FalseNegatives
	for _, file := range files {
		f, ok, err := falseNegatives(ctx, r, dir, file)
		if err != nil {
			return nil, fmt.Errorf("false negatives: %w", err)
		}
		if !ok {
			return nil, nil
		}
		r.Warn = nil // the other checkpoints would give the same warnings
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b FalseNegatives) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return out, nil
}

// checkpointsOf returns the checkpoints that a run keeps, one for each step: the last weights are often the best ones
// too.
func checkpointsOf(dir string) (paths []string, err error) {
	folder := filepath.Join(dir, runfs.CheckpointsName)
	files, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	seen := map[int64]bool{}
	for _, e := range files {
		path := filepath.Join(folder, e.Name())
		if e.IsDir() || filepath.Ext(path) != ".safetensors" {
			continue
		}
		w, err := models.OpenWeights(path, nil)
		if err != nil {
			return nil, err
		}
		_, step, _ := w.Progress()
		w.Close()
		if !seen[step] {
			paths = append(paths, path)
		}
		seen[step] = true
	}
	return paths, nil
}

func falseNegatives(ctx context.Context, r pretrained.AnalysisRequest, dir, file string) (f FalseNegatives, ok bool,
	err error) {
	cfg, err := inputs.LoadRun(dir)
	if err != nil {
		return f, false, err
	}
	w, err := models.OpenWeights(file, nil)
	if err != nil {
		return f, false, err
	}
	f.Checkpoint = filepath.Base(file)
	f.Epoch, f.Step, _ = w.Progress()
	w.Close()
	l, err := r.Load(file, false)
	if err != nil {
		return f, false, err
	}
	defer l.Close()
	if err := l.FollowNoise(); err != nil {
		return f, false, err
	}
	size := min(cfg.Train.Batch, l.Split.NumCaptions())
	s, err := data.NewSampler(l.Split.NumCaptions(), size, cfg.Seed, cfg.Train.Shuffle, true)
	if err != nil {
		return f, false, err
	}
	for i := range min(falseBatches, s.BatchesPerEpoch()) {
		h := &hardest{HardestRequest: HardestRequest{AnalysisRequest: r}, captions: slices.Clone(s.Batch(0, i))}
		scores, err := l.BatchScores(ctx, h.captions)
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
		f.Add(scores, margins, similar, images)
		r.Warn = nil
	}
	f.Finish()
	return f, true, nil
}
