package search

import (
	"context"
	"fmt"
	"sync"

	"vsetrain/eval"
	"vsetrain/internal/experiment"
	"vsetrain/internal/par"
	"vsetrain/models"
)

// member is one checkpoint with the encodings of the split. It scores a query with the candidates that of lists, or with all of them
// where of is nil, and leaves the scores in dst, one for each.
type member interface {
	// text scores images with a caption given as word ids.
	text(ctx context.Context, dst []float64, words, of []int32) error
	// caption scores images with caption c of the split.
	caption(ctx context.Context, dst []float64, c int, of []int32) error
	// image scores captions with image i of the split.
	image(ctx context.Context, dst []float64, i int, of []int32) error
	// all is the score matrix of the split.
	all(ctx context.Context) (eval.Scores, error)
	common() *encoder
}

// encoder is what members have in common.
type encoder struct {
	*experiment.Trained
	opt  *Options
	pool *par.Pool
	mu   *sync.Mutex // held while the network runs: a model has one set of inputs
}

func (e *encoder) common() *encoder { return e }

func (e *encoder) options() eval.EncodeOptions {
	return eval.EncodeOptions{
		Batch:       e.opt.Batch,
		Work:        e.opt.Cache,
		WorkSetting: "--cache",
		Progress:    func(done, total int) { e.opt.Progress("encode "+e.Name, done, total) },
		Pairs:       func(done, total int) { e.opt.Progress("score "+e.Name, done, total) },
	}
}

// openMember opens a checkpoint and encodes the split.
func openMember(ctx context.Context, o *Options, pool *par.Pool, checkpoint string) (m member, err error) {
	t, err := experiment.OpenTrained(experiment.TrainedRequest{Checkpoint: checkpoint, Data: o.Data, Vocab: o.Vocab, Split: o.Split, Device: o.Device, BLAS: o.BLAS, Warn: o.Warn})
	if err != nil {
		return nil, err
	}
	e := &encoder{Trained: t, opt: o, pool: pool, mu: &sync.Mutex{}}
	if _, ok := t.Model.PairScorer(); ok {
		m, err = newScorer(ctx, e)
	} else {
		m, err = newEmbedder(ctx, e)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	return m, nil
}

// words returns the ids of a query, as training tokenises captions.
func (e *encoder) words(query string) ([]int32, error) {
	if e.Model.Options.NeedsEdges() {
		return nil, &QueryError{e.Name + ": a network with model.gsmn.neighbors: true and mode: sparse reads the dependencies " +
			"between the words of a caption, which a typed query has not; search for captions of the split, or with a network " +
			"trained with model.gsmn.mode: dense"}
	}
	ids, _, _ := e.Lexicon.Coder().Append(nil, query)
	if e.Model.Options.TextEncoder != models.TextBert && len(ids) > maxWords {
		return nil, &QueryError{fmt.Sprintf("a query of %d words; at most %d are searched for", len(ids)-2, maxWords-2)}
	}
	return ids, nil
}

// maxWords bounds a query, <start> and <end> included: the graph of a caption is compiled for its length. The longest caption of the
// field's data sets has fewer than 100 words.
const maxWords = 512
