package view

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/inputs"
	"vsetrain/internal/run/study"
)

// searcher is what the pages need of an index; *index is one.
type searcher interface {
	Info() search.Info
	Image(i int) search.Image
	Caption(c int) string
	FindImage(id string) (int, error)
	Text(ctx context.Context, query string, k int) (search.Answer, error)
	OfImage(ctx context.Context, i, k int) (search.Answer, error)
	OfCaption(ctx context.Context, c, k int) (search.Answer, error)
	OfPicture(ctx context.Context, b []byte, k int) (search.Answer, error)
	HasExtractor() bool
	Outcomes(ctx context.Context) (*search.Outcomes, error)
	Attention(ctx context.Context, i, c int) (*study.WordAttention, error)
	Close() error
}

// networkKey says which network retrieves from which split.
type networkKey struct{ Run, Checkpoint, Split string }

// maxNetworks is how many networks with their encoded splits stay in memory.
const maxNetworks = 3

// networks holds the open networks. Opening takes seconds to minutes and happens in the background, one at a time.
type networks struct {
	opt  *Options
	busy chan struct{} // full while a network is opened or ranks

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu  sync.Mutex
	all map[networkKey]*openNetwork
}

// openNetwork is a network with an encoded split, or one that is being opened or failed to open. Its fields from phase
// on are guarded by networks.mu.
type openNetwork struct {
	key    networkKey
	opened time.Time
	cancel context.CancelFunc

	phase       string
	done, total int
	err         error
	index       searcher // nil until it is open
	pictures    *splitPictures
	outcomes    *search.Outcomes // nil until every query is ranked
	ranking     bool
	used        int // requests that read index now
	gone        bool
}

// progressOf is the state of a network at one moment, for a page.
type progressOf struct {
	Phase       string
	Done, Total int
	Err         string
	Loading     bool
	Ranking     bool
	Ranked      bool
	Pairs       bool
}

func newNetworks(o *Options) *networks {
	ctx, stop := context.WithCancel(context.Background())
	return &networks{opt: o, busy: make(chan struct{}, 1), ctx: ctx, stop: stop, all: map[networkKey]*openNetwork{}}
}

// close cancels what is loading and closes every index.
func (s *networks) close() {
	s.stop()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, b := range s.all {
		s.drop(b)
		delete(s.all, k)
	}
}

// drop closes a network, at once or when the last request that reads it ends. mu is locked.
func (s *networks) drop(b *openNetwork) {
	b.gone = true
	b.cancel()
	if b.used == 0 && b.index != nil {
		b.index.Close()
		b.index = nil
	}
}

// state returns the state of a network; ok is false if nobody asked for it.
func (s *networks) state(k networkKey) (p progressOf, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.all[k]
	if !ok {
		return p, false
	}
	p = progressOf{Phase: b.phase, Done: b.done, Total: b.total, Loading: b.index == nil && b.err == nil,
		Ranking: b.ranking, Ranked: b.outcomes != nil}
	if b.err != nil {
		p.Err = b.err.Error()
	}
	if b.index != nil {
		p.Pairs = b.index.Info().Pairs
	}
	return p, true
}

// acquire returns an open network, which stays open until release is called; nil if it is not open.
func (s *networks) acquire(k networkKey) (b *openNetwork, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = s.all[k]
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

// ranks returns the outcomes of an acquired network, nil until every query is ranked.
func (s *networks) ranks(b *openNetwork) *search.Outcomes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.outcomes
}

// load starts to open a network for a split, unless that was done before. run is the directory of the run.
func (s *networks) load(k networkKey, run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.all[k]; ok {
		if b.err == nil {
			return
		}
		s.drop(b)
	}
	s.evictOldest()
	ctx, cancel := context.WithCancel(s.ctx)
	b := &openNetwork{key: k, opened: s.opt.Now(), cancel: cancel, phase: "waiting for its turn"}
	s.all[k] = b
	data := s.opt.Data
	if data == "" && run.Config != nil {
		c := *run.Config
		if err := inputs.LocateRun(run.Dir, &c); err == nil { // opening the run will tell
			data = c.Data.Dir
		}
	}
	o := search.Options{Checkpoints: []string{checkpointPath(run.Dir, k.Checkpoint)}, Data: s.opt.Data,
		PerImage: s.opt.PerImage, Split: k.Split, Cache: s.opt.Cache, CacheLimit: s.opt.CacheLimit,
		Device: s.opt.Device, BLAS: s.opt.BLAS, Warn: s.opt.Warn,
		Progress: s.reporter(b)}
	s.work.Go(func() { s.open(ctx, b, o, data) })
}

// evictOldest drops the oldest networks until one more fits. mu is locked.
func (s *networks) evictOldest() {
	for len(s.all) >= maxNetworks {
		var oldest *openNetwork
		for _, b := range s.all {
			if oldest == nil || b.opened.Before(oldest.opened) {
				oldest = b
			}
		}
		s.drop(oldest)
		delete(s.all, oldest.key)
	}
}

func (s *networks) reporter(b *openNetwork) func(string, int, int) {
	return func(phase string, done, total int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		b.phase, b.done, b.total = phase, done, total
	}
}

// wait waits until no other network is being opened or ranks; false when ctx ended first.
func (s *networks) wait(ctx context.Context) bool {
	select {
	case s.busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// open opens the network, and ranks every query at once where that takes little time.
func (s *networks) open(ctx context.Context, b *openNetwork, o search.Options, data string) {
	if !s.wait(ctx) {
		return
	}
	index, err := guarded(func() (searcher, error) { return s.opt.open(ctx, o) })
	<-s.busy
	var found *splitPictures
	if err == nil {
		found, err = openPictures(pictures.FolderOf(s.opt.Images, data), index)
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
		b.index, b.phase = index, ""
	}
	start := false
	if b.index != nil {
		i := b.index.Info()
		start = !i.Pairs && i.Queries == search.AllQueries
	}
	s.mu.Unlock()
	if start {
		s.rank(b.key)
	}
}

// rank starts to rank every query of an open network, unless that was done before.
func (s *networks) rank(k networkKey) {
	b, release := s.acquire(k)
	if b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.ranking || b.outcomes != nil {
		s.work.Go(release)
		return
	}
	b.ranking, b.phase, b.done, b.total = true, "rank", 0, 0
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
		<-s.busy
		s.mu.Lock()
		defer s.mu.Unlock()
		b.ranking, b.outcomes = false, out
		if err != nil && ctx.Err() == nil {
			b.phase = fmt.Sprintf("the queries could not be ranked: %v", err)
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
