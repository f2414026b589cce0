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

// probe is a query as members score it: a caption, which images are scored for, as word ids or the embedding of one
// embedder or as caption number of the split; or else an image of the split, or a picture, which captions are scored
// for.
type probe struct {
	words   map[*encoder][]int32 // for each network
	unknown []string             // words that a vocabulary lacks
	vector  []float32
	caption bool
	number  int // of the caption or the image of the split
	picture *picture
	own     func(candidate int) bool // its matches; nil without any
}

// forImages reports whether images are the candidates.
func (q *probe) forImages() bool { return q.words != nil || q.vector != nil || q.caption }

// member is one checkpoint with the encodings of the split, which are made when they are first needed. It scores a
// query with the candidates that the function of lists, or with all of them where of is nil.
type member interface {
	// score leaves the scores of images with a caption, or of captions with an image, in dst.
	score(ctx context.Context, dst []float64, q *probe, of []int32) error
	// all is the score matrix of the split, computed on a pool that no query waits for.
	all(ctx context.Context, pool *par.Pool) (eval.Scores, error)
	// prepare makes the encodings of sides of the split, and the graphs of typed queries where text is set.
	prepare(ctx context.Context, images, captions, text bool) error
	common() *encoder
}

// encoder is what members have in common.
type encoder struct {
	*pretrained.Network
	opt      *Options
	pool     *par.Pool
	mu       *sync.Mutex // held while the network runs: a model has one set of inputs
	lease    *lease      // of the network, which an index that is renewed takes over
	original bool        // the split is without its changes
	keyMu    sync.Mutex
	cacheKey string // "" until it is asked for
}

// side is the encodings of the images or the captions of a split. They are made when they are first needed; an error
// leaves the side empty, and the next query tries again.
type side[T any] struct {
	mu    sync.Mutex // held while they are made; taken before the lock of the encoder
	ready bool
	all   T
}

// get returns the encodings; it makes them where they are missing.
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

// made returns the encodings if they are there.
func (s *side[T]) made() (all T, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, s.ready
}

func (e *encoder) common() *encoder { return e }

// options are the options for encoding one side.
func (e *encoder) options(side string) eval.EncodeOptions {
	o := eval.EncodeOptions{
		Batch:       e.opt.Batch,
		WorkSetting: "--cache",
		Progress:    func(done, total int) { e.opt.Progress("encode "+side+" "+e.Name, done, total) },
		Pairs:       func(done, total int) { e.opt.Progress("score "+e.Name, done, total) },
	}
	if e.opt.CacheLimit == 0 { // a folder that somebody named may hold hours of scores
		o.Work = e.opt.Cache
	}
	return o
}

// openMember opens a checkpoint and its split. Nothing is encoded.
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

// readImage returns an image of the split, with boxes where the network looks at them.
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
			"dependencies " +
			"between the words of a caption, which a typed query has not; search for captions of the split, or with " +
			"a network " +
			"trained with model.gsmn.mode: dense"}
	}
	ids, _, _ := e.Tokenizer.NewEncoder().Append(nil, query)
	if e.Model.Options.TextEncoder != models.TextBert && len(ids) > maxWords {
		return nil, &QueryError{fmt.Sprintf("a query of %d words; at most %d are searched for", len(ids)-2, maxWords-2)}
	}
	return ids, nil
}

// maxWords bounds a query, <start> and <end> included: the graph of a caption is compiled for its length. The longest
// caption of the field's data sets has fewer than 100 words.
const maxWords = 512
