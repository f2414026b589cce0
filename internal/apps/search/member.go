package search

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"vsetrain/eval"
	"vsetrain/internal/compute/par"
	"vsetrain/internal/run/pretrained"
	"vsetrain/models"
)

// probe is a query as members score it. Images are scored for a caption: words, vector or a caption of the split.
// Captions are scored for an image of the split or a picture.
type probe struct {
	words   map[*encoder][]int32 // for each network
	unknown []string             // words that a vocabulary lacks
	vector  []float32            // embedding of the only member
	caption bool                 // number is a caption, otherwise an image
	number  int                  // in the split
	picture *picture
	own     func(candidate int) bool // reports a match; nil without any
}

func (q *probe) forImages() bool { return q.words != nil || q.vector != nil || q.caption }

// member is one checkpoint with the encodings of the split, which are computed when they are first needed.
type member interface {
	// score writes the scores of a query with the candidates of to dst; nil is all candidates.
	score(ctx context.Context, dst []float64, q *probe, of []int32) error
	// all returns the score matrix of the split, computed on a pool that no query uses.
	all(ctx context.Context, pool *par.Pool) (eval.Scores, error)
	prepare(ctx context.Context, q Queries) error // see Index.Prepare
	common() *encoder
}

// encoder is the common part of members.
type encoder struct {
	*pretrained.Network
	opt      *Options
	pool     *par.Pool
	mu       *sync.Mutex // held while the network runs: a model has one set of inputs
	lease    *lease      // of the network, which renewed indexes share
	original bool        // the split is without its changes
	keyMu    sync.Mutex
	cacheKey string // "" until it is needed
}

// side is the encodings of the images or captions of a split, computed when they are first needed. After an error, the
// next query tries again.
type side[T any] struct {
	mu    sync.Mutex // held during encoding; taken before the lock of the encoder
	ready bool
	all   T
}

// get returns the encodings and computes them if they are missing.
func (s *side[T]) get(e *encoder, encode func() (T, error)) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready {
		return s.all, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	all, err := encode()
	if err == nil {
		s.all, s.ready = all, true
	}
	return all, err
}

func (s *side[T]) made() (all T, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, s.ready
}

func (e *encoder) common() *encoder { return e }

func (e *encoder) options(side string) eval.EncodeOptions {
	o := eval.EncodeOptions{
		Batch:       e.opt.Batch,
		WorkSetting: "--cache",
		Progress:    func(done, total int) { e.opt.Progress("encode "+side+" "+e.Name, done, total) },
		Pairs:       func(done, total int) { e.opt.Progress("score "+e.Name, done, total) },
	}
	if e.opt.CacheLimit == 0 { // the user named the folder, so it may keep hours of scores
		o.Work = e.opt.Cache
	}
	return o
}

// openMember opens a checkpoint and its split without encoding anything.
func openMember(o *Options, pool *par.Pool, checkpoint string) (member, error) {
	t, err := pretrained.Open(o.trained(checkpoint))
	if err != nil {
		return nil, err
	}
	q := &bf16Queries{}
	e := &encoder{Network: t, opt: o, pool: pool, mu: &sync.Mutex{}, lease: newLease(func() error {
		return errors.Join(q.close(), t.Close())
	})}
	if t.Runner.Pairs != nil {
		return &scorer{encoder: e}, nil
	}
	return &embedder{encoder: e, dim: t.Runner.Embeds.Dim(), bf16: q}, nil
}

// readImage returns an image of the split, with boxes if the network reads them.
func (e *encoder) readImage(i int) (p picture, err error) {
	s := e.Split
	row := s.RowOf(i)
	p.features = make([]float32, s.Regions()*s.Dim())
	if err := s.ReadImage(p.features, row); err != nil {
		return p, err
	}
	if e.Model.Options.Traits().Boxes {
		p.boxes = make([]float32, 4*s.Regions())
		err = s.ReadBoxes(p.boxes, row)
	}
	return p, err
}

// words returns the ids of a query, as training tokenises captions.
func (e *encoder) words(query string) ([]int32, error) {
	if e.Model.Options.Traits().ReadsEdges {
		return nil, &QueryError{e.Name + ": a network with model.gsmn.neighbors: true and mode: sparse reads the " +
			"dependencies between the words of a caption, which a typed query lacks; search for captions of the " +
			"split, or with a network trained with model.gsmn.mode: dense"}
	}
	ids, _, _ := e.Tokenizer.NewEncoder().Append(nil, query)
	if e.Model.Options.TextEncoder != models.TextBert && len(ids) > maxWords {
		return nil, &QueryError{fmt.Sprintf("a query of %d words; expected at most %d", len(ids)-2, maxWords-2)}
	}
	return ids, nil
}

// maxWords bounds a query with its <start> and <end>: the graph of a caption is compiled for its length. The longest
// caption of the field's data sets has fewer than 100 words.
const maxWords = 512
