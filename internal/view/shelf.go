package view

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"vsetrain/internal/experiment"
	"vsetrain/internal/search"
)

// searcher is what the pages need of an index; *search.Index is one.
type searcher interface {
	Info() search.Info
	Image(i int) search.Image
	Caption(c int) string
	FindImage(id string) (int, error)
	Text(ctx context.Context, query string, k int) (search.Answer, error)
	OfImage(ctx context.Context, i, k int) (search.Answer, error)
	OfCaption(ctx context.Context, c, k int) (search.Answer, error)
	Outcomes(ctx context.Context) (*search.Outcomes, error)
	Close() error
}

func openIndex(ctx context.Context, o search.Options) (searcher, error) {
	x, err := search.Open(o)
	if err != nil {
		return nil, err // not a nil *search.Index in the interface
	}
	if err := x.Prepare(ctx, search.AllQueries); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// bookKey says which network retrieves from which split.
type bookKey struct{ Run, Checkpoint, Split string }

// maxBooks is how many networks with their encoded splits are kept in memory.
const maxBooks = 3

// shelf holds the opened networks. Opening takes seconds to minutes and happens beside the requests, one at a time.
type shelf struct {
	opt  *Options
	turn chan struct{} // held by what loads or ranks

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	books map[bookKey]*book
}

// book is one opened network, or one that is being opened or failed to open. The fields below mu of the shelf are its state.
type book struct {
	key    bookKey
	opened time.Time
	cancel context.CancelFunc

	stage       string
	done, total int
	err         error
	index       searcher // nil until it is open
	pictures    *pictures
	outcomes    *search.Outcomes // nil until every query is ranked
	ranking     bool
	used        int // requests that read index now
	gone        bool
}

// progressOf is the state of a book at one moment, for a page.
type progressOf struct {
	Stage       string
	Done, Total int
	Err         string
	Loading     bool
	Ranking     bool
	Ranked      bool
	Pairs       bool
}

func newShelf(o *Options) *shelf {
	ctx, stop := context.WithCancel(context.Background())
	return &shelf{opt: o, turn: make(chan struct{}, 1), ctx: ctx, stop: stop, books: map[bookKey]*book{}}
}

// close cancels what is loading and closes every index.
func (s *shelf) close() {
	s.stop()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, b := range s.books {
		s.drop(b)
		delete(s.books, k)
	}
}

// drop closes a book, or has the last request that reads it do so. The shelf is locked.
func (s *shelf) drop(b *book) {
	b.gone = true
	b.cancel()
	if b.used == 0 && b.index != nil {
		b.index.Close()
		b.index = nil
	}
}

// state returns how a book stands; ok is false where it was never asked for.
func (s *shelf) state(k bookKey) (p progressOf, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.books[k]
	if !ok {
		return p, false
	}
	p = progressOf{Stage: b.stage, Done: b.done, Total: b.total, Loading: b.index == nil && b.err == nil, Ranking: b.ranking, Ranked: b.outcomes != nil}
	if b.err != nil {
		p.Err = b.err.Error()
	}
	if b.index != nil {
		p.Pairs = b.index.Info().Pairs
	}
	return p, true
}

// borrow returns an open book; release must be called once it is no longer read. It is nil where the book is not open.
func (s *shelf) borrow(k bookKey) (b *book, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = s.books[k]
	if b == nil || b.index == nil {
		return nil, nil
	}
	b.used++
	return b, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if b.used--; b.used == 0 && b.gone && b.index != nil {
			b.index.Close()
			b.index = nil
		}
	}
}

// ranks returns the outcomes of a borrowed book, nil until they are there.
func (s *shelf) ranks(b *book) *search.Outcomes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.outcomes
}

// load starts to open a network for a split, unless that was done before. run is the directory of the run.
func (s *shelf) load(k bookKey, run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.books[k]; ok {
		if b.err == nil {
			return
		}
		s.drop(b)
	}
	s.makeRoom()
	ctx, cancel := context.WithCancel(s.ctx)
	b := &book{key: k, opened: s.opt.Now(), cancel: cancel, stage: "waiting for its turn"}
	s.books[k] = b
	data := s.opt.Data
	if data == "" && run.Config != nil {
		c := *run.Config
		if err := experiment.LocateRun(run.Dir, &c); err == nil { // opening the run will tell
			data = c.Data.Dir
		}
	}
	o := search.Options{Checkpoints: []string{checkpointPath(run.Dir, k.Checkpoint)}, Data: s.opt.Data, Split: k.Split,
		Cache: s.opt.Cache, CacheLimit: s.opt.CacheLimit, Device: s.opt.Device, BLAS: s.opt.BLAS,
		Warn: s.opt.Warn, Progress: s.reporter(b)}
	s.work.Go(func() { s.open(ctx, b, o, data) })
}

// makeRoom drops the oldest books until one more fits. The shelf is locked.
func (s *shelf) makeRoom() {
	for len(s.books) >= maxBooks {
		var oldest *book
		for _, b := range s.books {
			if oldest == nil || b.opened.Before(oldest.opened) {
				oldest = b
			}
		}
		s.drop(oldest)
		delete(s.books, oldest.key)
	}
}

func (s *shelf) reporter(b *book) func(string, int, int) {
	return func(stage string, done, total int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.stage, b.done, b.total = stage, done, total
	}
}

// wait takes the turn to compute; false when ctx ended first.
func (s *shelf) wait(ctx context.Context) bool {
	select {
	case s.turn <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// open opens the network, and ranks every query at once where that takes little time.
func (s *shelf) open(ctx context.Context, b *book, o search.Options, data string) {
	if !s.wait(ctx) {
		return
	}
	index, err := guarded(func() (searcher, error) { return s.opt.open(ctx, o) })
	<-s.turn
	var found *pictures
	if err == nil {
		found, err = openPictures(s.opt.imagesOf(data), index)
	}
	s.mu.Lock()
	if b.gone && index != nil { // it was dropped meanwhile
		index.Close()
		index = nil
	}
	if err != nil && index != nil {
		index.Close()
		index = nil
	}
	b.err, b.pictures = err, found
	if err == nil {
		b.index, b.stage = index, ""
	}
	start := b.index != nil && !b.index.Info().Pairs
	s.mu.Unlock()
	if start {
		s.rank(b.key)
	}
}

// rank starts to rank every query of an open book, unless that was done before.
func (s *shelf) rank(k bookKey) {
	b, release := s.borrow(k)
	if b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.ranking || b.outcomes != nil {
		s.work.Go(release)
		return
	}
	b.ranking, b.stage, b.done, b.total = true, "rank", 0, 0
	ctx, cancel := context.WithCancel(s.ctx)
	before := b.cancel
	b.cancel = func() { before(); cancel() }
	s.work.Go(func() {
		defer release()
		defer cancel()
		if !s.wait(ctx) {
			return
		}
		out, err := guarded(func() (*search.Outcomes, error) { return b.index.Outcomes(ctx) })
		<-s.turn
		s.mu.Lock()
		defer s.mu.Unlock()
		b.ranking, b.outcomes = false, out
		if err != nil && ctx.Err() == nil {
			b.stage = fmt.Sprintf("the queries could not be ranked: %v", err)
		}
	})
}

// guarded turns a panic of the work into its error, so that one network does not end the program.
func guarded[T any](f func() (T, error)) (out T, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = errors.Join(err, fmt.Errorf("internal error: %v", e))
		}
	}()
	return f()
}
