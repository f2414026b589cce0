package training

import (
	"context"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// validateBatches measures the batches that a run overfits (train.overfit), each by itself, with the network in
// evaluation mode: the ranks of the pairs among all captions, and all images, of their batch. Captions of one image do
// not compete with each other.
func (t *training) validateBatches(ctx context.Context) (m eval.Metrics, err error) {
	o := &t.Cfg.Train
	s, err := data.NewSampler(t.Train.NumCaptions(), o.Batch, t.Cfg.Seed, o.Shuffle, o.DropLast)
	if err != nil {
		return m, err
	}
	l := &pretrained.Network{Model: t.Model, Runner: models.NewRunner(t.Model, nil), Split: t.Train,
		Tokenizer: t.Tokenizer}
	var i2t, t2i []int
	for k := range o.Overfit {
		captions := s.Batch(0, k)
		scores, err := l.BatchScores(ctx, captions)
		if err != nil {
			return m, err
		}
		a, b := batchRanks(scores, len(captions), func(i, j int) bool {
			return t.Train.ImageOf(int(captions[i])) == t.Train.ImageOf(int(captions[j]))
		})
		i2t, t2i = append(i2t, a...), append(t2i, b...)
		t.Observer.Validating(Encoding, k+1, o.Overfit)
	}
	m = eval.NewMetrics(i2t, t2i)
	m.Protocol = "batches"
	return m, nil
}

// batchRanks returns the ranks, from 0, of the pairs of a batch with scores [n, n], row i the image of caption i. Equal
// scores rank ahead; pairs of the same image are left out.
func batchRanks(scores []float64, n int, same func(i, j int) bool) (i2t, t2i []int) {
	i2t, t2i = make([]int, n), make([]int, n)
	for i := range n {
		for j := range n {
			if i == j || same(i, j) {
				continue
			}
			if v := scores[i*n+j]; v >= scores[i*n+i] {
				i2t[i]++
			}
			if v := scores[j*n+i]; v >= scores[i*n+i] {
				t2i[i]++
			}
		}
	}
	return i2t, t2i
}
