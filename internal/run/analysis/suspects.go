package analysis

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"vsetrain/data"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/internal/stats"
)

// Suspect is a training caption with the probability that it does not describe its image.
type Suspect struct {
	Caption     int     // from 0, as in a noise index
	ImageID     string  // of the image it was trained with
	Probability float64 // the probability that the caption is wrong
	Loss        float64 // mean over the checkpoints
}

// suspectRounds is the number of passes over the training split for each checkpoint, each with other batches.
const suspectRounds = 2

// Suspects ranks the training captions of a run by the probability that they are wrong, the highest first. Of equal
// ones the one with the larger loss comes first. The loss of a pair is NCR's (XLearning-SCU/2021-NeurIPS-NCR,
// co_train.py, eval_train): the mean hinge over its batch in both directions with margin 0.2, in evaluation mode. Here
// it is averaged over all checkpoints that the run keeps. The probability is the responsibility of the component with
// the larger mean in a mixture of two (stats.FitMixture). progress counts batches; it may be nil.
func Suspects(ctx context.Context, r pretrained.AnalysisRequest, dir string,
	progress func(what string, done, total int)) (
	[]Suspect, error) {
	r.Split = "train"
	files, err := checkpointsOf(dir)
	if err != nil {
		return nil, fmt.Errorf("suspects: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("suspects: %s keeps no checkpoint yet; wait for the first validation", dir)
	}
	var losses []float64
	var out []Suspect
	for i, file := range files {
		some, split, err := pairLosses(ctx, r, dir, file, func(done, total int) {
			if progress != nil {
				progress("suspects", i*total+done, len(files)*total)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("suspects: %w", err)
		}
		r.Warn = nil // the other checkpoints would give the same warnings
		if losses == nil {
			losses, out = make([]float64, len(some)), split
		}
		for c, l := range some {
			losses[c] += l / float64(len(files))
		}
	}
	m := stats.FitMixture(losses)
	for c := range out {
		out[c].Probability, out[c].Loss = 1-m.Probability[c], losses[c]
	}
	slices.SortStableFunc(out, func(a, b Suspect) int {
		return cmp.Or(cmp.Compare(b.Probability, a.Probability), cmp.Compare(b.Loss, a.Loss))
	})
	return out, nil
}

// pairLosses returns the loss of every training caption under a checkpoint, and the captions with their images.
func pairLosses(ctx context.Context, r pretrained.AnalysisRequest, dir, file string, progress func(done, total int)) (
	losses []float64, captions []Suspect, err error) {
	cfg, err := inputs.LoadRun(dir)
	if err != nil {
		return nil, nil, err
	}
	l, err := r.Load(file, false)
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	if err := l.FollowNoise(); err != nil {
		return nil, nil, err
	}
	n := l.Split.NumCaptions()
	for c := range n {
		captions = append(captions, Suspect{Caption: c, ImageID: l.Split.ImageID(l.Split.ImageRow(c))})
	}
	s, err := data.NewSampler(n, min(cfg.Train.Batch, n), cfg.Seed, true, false)
	if err != nil {
		return nil, nil, err
	}
	losses = make([]float64, n)
	batches := s.BatchesPerEpoch()
	for i := range suspectRounds * batches {
		batch := slices.Clone(s.Batch(i/batches, i%batches))
		scores, err := l.BatchScores(ctx, batch)
		if err != nil {
			return nil, nil, err
		}
		for k, v := range meanHinges(scores, len(batch)) {
			losses[batch[k]] += v / suspectRounds
		}
		progress(i+1, suspectRounds*batches)
	}
	return losses, captions, nil
}

// meanHinges returns, for each pair of scores [n, n], the mean hinge of its row and its column.
func meanHinges(scores []float64, n int) []float64 {
	const margin = 0.2
	out := make([]float64, n)
	for i := range n {
		for j := range n {
			if i != j {
				out[i] += max(0, margin+scores[i*n+j]-scores[i*n+i]) / float64(n)
				out[i] += max(0, margin+scores[j*n+i]-scores[i*n+i]) / float64(n)
			}
		}
	}
	return out
}
