package analysis

import (
	"context"
	"fmt"
	"math"
	"path/filepath"

	"vsetrain/data"
	"vsetrain/eval"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/compute/philox"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/pretrained"
	"vsetrain/loss"
	"vsetrain/train"
)

// MineRequest asks for the hardest negatives of a training split.
type MineRequest struct {
	pretrained.Request        // of a checkpoint
	Scores             string // .npy of the scores of the split, in place of a checkpoint
	Options            eval.MineOptions
	Batch              int
	Progress           func(phase string, done, total int) // may be nil
}

// MinedReport describes mined negatives.
type MinedReport struct {
	Mined *data.Mined
	Found string // the checkpoint with its network, or the matrix

	Captions, Images           int // of the split
	FewerCaptions, FewerImages int // those with fewer negatives than were asked for

	// Percentage of caption pairs whose semantic similarity (cosine) is at least train.FalseSimilarity: False between
	// captions and the captions of their mined images, RandomFalse between captions drawn at random. Looked counts the
	// captions examined, 0 without semantic vectors.
	False, RandomFalse float64
	Looked             int
}

// Mine finds the hardest negatives of every caption and every image of the training split, from the scores of a
// checkpoint in evaluation mode or from stored scores. Embeddings are multiplied and stored scores are read block by
// block. A network that scores pairs keeps all its scores in memory.
func Mine(ctx context.Context, r MineRequest) (rep *MinedReport, err error) {
	r.Split = "train"
	rep = &MinedReport{Mined: &data.Mined{}}
	head := &rep.Mined.MinedHeader
	pool := par.New(r.Device.Threads)
	defer pool.Close()
	var split *data.Split
	var scores eval.Scores
	o := data.DefaultOptions()
	if o.Dir = r.Data; r.Scores != "" {
		open := data.OpenOptions{CaptionsPerImage: r.PerImage.Of(r.Split)}
		if split, err = data.Open(r.Data, r.Split, open); err != nil {
			return nil, err
		}
		defer split.Close()
		stored, err := eval.OpenScores(r.Scores)
		if err != nil {
			return nil, err
		}
		defer func() {
			if e := stored.Close(); err == nil {
				err = e
			}
		}()
		if n, m := stored.Dims(); n != split.NumImages() || m != split.NumCaptions() {
			return nil, fmt.Errorf("%s: scores of %d images x %d captions; split train of %s has %d images and %d "+
				"captions", r.Scores, n, m, split.Dir(), split.NumImages(), split.NumCaptions())
		}
		scores, rep.Found = stored, r.Scores
		if head.SHA256, err = integrity.FileSHA256(r.Scores); err != nil {
			return nil, err
		}
		head.Source = filepath.Base(r.Scores)
	} else {
		t, err := pretrained.Open(r.Request)
		if err != nil {
			return nil, err
		}
		defer t.Close()
		if err := t.FollowNoise(); err != nil {
			return nil, err
		}
		if t.Data.NoiseIndex != "" {
			head.NoiseIndex = t.Model.Noise.SHA256
		}
		split, o, rep.Found = t.Split, t.Data, t.Found
		if head.SHA256, err = integrity.FileSHA256(t.File); err != nil {
			return nil, err
		}
		head.Source = t.Name
		e := eval.EncodeOptions{Batch: r.Batch, Warn: r.Warn}
		if r.Progress != nil {
			e.Progress = func(done, total int) { r.Progress("embed "+t.Name, done, total) }
			e.Pairs = func(done, total int) { r.Progress("score "+t.Name, done, total) }
		}
		if scores, err = eval.Score(ctx, pool, t.Runner, split, t.Tokenizer, e); err != nil {
			return nil, err
		}
	}
	own := make([]int32, split.NumCaptions())
	for c := range own {
		own[c] = int32(split.ImageOf(c))
	}
	images, captions := eval.Mine(pool, scores, own, r.Options)
	head.K, head.Rho, head.Digest = r.Options.Depth, r.Options.Rho, data.Digest(split)
	rep.Mined.Images, rep.FewerCaptions = lists(captions, head.K)
	rep.Mined.Captions, rep.FewerImages = lists(images, head.K)
	rep.Captions, rep.Images = len(own), split.NumImages()
	return rep, rep.lookForFalse(split, o, own)
}

// lists puts negatives into rows of k, and counts those with fewer.
func lists(all []eval.TopList, k int) (l data.MinedLists, fewer int) {
	for _, n := range all {
		if len(n.Items) < k {
			fewer++
		}
		for i := range k {
			item, score := int32(-1), float32(0)
			if i < len(n.Items) {
				item, score = n.Items[i], float32(n.Scores[i])
			}
			l.Items, l.Scores = append(l.Items, item), append(l.Scores, score)
		}
	}
	return l, fewer
}

// falseCaptions is how many captions lookForFalse looks at, evenly spaced.
const falseCaptions = 2000

// lookForFalse measures how many of the mined negatives of captions are false ones, where the split has semantic
// vectors.
func (rep *MinedReport) lookForFalse(s *data.Split, o data.Options, own []int32) error {
	l := loss.DefaultOptions()
	path, err := inputs.SemanticsPath(o, &l)
	if err != nil {
		return nil // needed only for these numbers
	}
	store, err := inputs.OpenSemantics(path, s, nil)
	if err != nil {
		return err
	}
	defer store.Close()
	x, y := make([]float32, store.RowLen()), make([]float32, store.RowLen())
	of := make([][]int32, s.NumImages()) // captions
	for c, i := range own {
		of[i] = append(of[i], int32(c))
	}
	isFalse := func(c int32) (int, error) {
		if err := store.ReadRow(y, int(c)); err != nil {
			return 0, err
		}
		if inner(x, y) >= train.FalseSimilarity*math.Sqrt(inner(x, x)*inner(y, y)) && inner(y, y) > 0 {
			return 1, nil
		}
		return 0, nil
	}
	rep.Looked = min(falseCaptions, len(own))
	draws := philox.NewKey(0, "mined").Stream(0)
	var hits, pairs, random, drawn int
	for j := range rep.Looked {
		c := j * len(own) / rep.Looked
		if err := store.ReadRow(x, c); err != nil {
			return err
		}
		for _, i := range rep.Mined.Images.Of(c, rep.Mined.K) {
			for _, d := range of[i] {
				n, err := isFalse(d)
				if err != nil {
					return err
				}
				hits, pairs = hits+n, pairs+1
			}
		}
		if d := int32(draws.IntN(len(own))); own[d] != own[c] {
			n, err := isFalse(d)
			if err != nil {
				return err
			}
			random, drawn = random+n, drawn+1
		}
	}
	rep.False, rep.RandomFalse = 100*float64(hits)/float64(max(1, pairs)), 100*float64(random)/float64(max(1, drawn))
	return nil
}

// inner is the inner product of two vectors.
func inner(x, y []float32) (sum float64) {
	for i, v := range x {
		sum += float64(v) * float64(y[i])
	}
	return sum
}
