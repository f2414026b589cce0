package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/files/pictures"
	"vsetrain/internal/run/analysis"
)

// searcher answers the queries of the pages; *index is one.
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
	Attention(ctx context.Context, i, c int) (*analysis.WordAttention, error)
	Close() error
}

// networkKey names a network and the split that it retrieves from.
type networkKey struct{ Run, Checkpoint, Split string }

// maxNetworks bounds the networks with encoded splits in memory.
const maxNetworks = 3

// networks holds the open networks. It opens them in the background, one at a time, in seconds to minutes.
type networks struct {
	opt  *Options
	busy chan struct{} // full while a network is opened or ranks queries

	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu  sync.Mutex
	all map[networkKey]*openNetwork
}

// openNetwork is a network with an encoded split; it may still be opening, or have failed to open. networks.mu guards
// its fields; index and pictures do not change once it is open.
type openNetwork struct {
	progressOf
	key      networkKey
	opened   time.Time
	cancel   context.CancelFunc
	index    searcher // nil until it is open
	pictures *splitPictures
	outcomes *search.Outcomes // nil until every query is ranked
	users    sync.WaitGroup   // requests that use index
	gone     bool
}

// progressOf is a snapshot of the state of a network, for a page.
type progressOf struct {
	Phase                           string
	Done, Total                     int
	Err                             string
	Loading, Ranking, Ranked, Pairs bool
}

func newNetworks(o *Options) *networks {
	ctx, stop := context.WithCancel(context.Background())
	return &networks{opt: o, busy: make(chan struct{}, 1), ctx: ctx, stop: stop, all: map[networkKey]*openNetwork{}}
}

// close cancels loading and closes every index.
func (s *networks) close() {
	s.stop()
	s.work.Wait()
	s.mu.Lock()
	for _, b := range s.all {
		s.drop(b)
	}
	s.mu.Unlock()
	s.work.Wait()
}

// drop removes a network and closes it after the last request that uses it. The caller holds mu.
func (s *networks) drop(b *openNetwork) {
	delete(s.all, b.key)
	b.gone = true
	b.cancel()
	if b.index != nil {
		s.work.Go(func() {
			b.users.Wait()
			b.index.Close()
		})
	}
}

func (s *networks) state(k networkKey) (p progressOf, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.all[k]
	if ok {
		p = b.progressOf
	}
	return p, ok
}

// acquire returns an open network, which stays open until release is called, or nil.
func (s *networks) acquire(k networkKey) (b *openNetwork, release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b = s.all[k]; b == nil || b.index == nil {
		return nil, nil
	}
	b.users.Add(1)
	return b, b.users.Done
}

// ranks returns the outcomes of an acquired network, nil until every query is ranked.
func (s *networks) ranks(b *openNetwork) *search.Outcomes {
	s.mu.Lock()
	defer s.mu.Unlock()
	return b.outcomes
}

// load starts to open a network for a split, unless it is open or opening.
func (s *networks) load(k networkKey, run *Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.all[k]; ok {
		if b.Err == "" {
			return
		}
		s.drop(b)
	}
	for len(s.all) >= maxNetworks { // drop the oldest
		s.drop(slices.MinFunc(slices.Collect(maps.Values(s.all)), func(a, b *openNetwork) int {
			return a.opened.Compare(b.opened)
		}))
	}
	ctx, cancel := context.WithCancel(s.ctx)
	b := &openNetwork{key: k, opened: s.opt.Now(), cancel: cancel,
		progressOf: progressOf{Phase: "waiting for its turn", Loading: true}}
	s.all[k] = b
	o := search.Options{Checkpoints: []string{checkpointPath(run.Dir, k.Checkpoint)}, Data: s.opt.Data,
		PerImage: s.opt.PerImage, Split: k.Split, Cache: s.opt.Cache, CacheLimit: s.opt.CacheLimit,
		Device: s.opt.Device, BLAS: s.opt.BLAS, Warn: s.opt.Warn,
		Progress: func(phase string, done, total int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			b.Phase, b.Done, b.Total = phase, done, total
		}}
	s.work.Go(func() { s.open(ctx, b, o) })
}

// wait waits until no other network is opening or ranking; false if ctx ends first.
func (s *networks) wait(ctx context.Context) bool {
	select {
	case s.busy <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// open opens the network, and ranks every query if this is quick.
func (s *networks) open(ctx context.Context, b *openNetwork, o search.Options) {
	if !s.wait(ctx) {
		return
	}
	index, err := guarded(func() (searcher, error) { return s.opt.open(ctx, o) })
	<-s.busy
	var found *splitPictures
	if err == nil {
		if found, err = openPictures(pictures.FolderOf(s.opt.Images, index.Info().Data), index); err != nil {
			index.Close()
		}
	}
	s.mu.Lock()
	b.Loading, b.Phase = false, ""
	if err != nil {
		b.Err = err.Error()
		s.mu.Unlock()
		return
	}
	i, gone := index.Info(), b.gone
	if !gone {
		b.index, b.pictures, b.Pairs = index, found, i.Pairs
	}
	s.mu.Unlock()
	switch {
	case gone: // it was dropped meanwhile
		index.Close()
	case !i.Pairs && i.Queries == search.AllQueries:
		s.rank(b.key)
	}
}

// rank starts to rank every query of an open network, unless it did before.
func (s *networks) rank(k networkKey) {
	b, release := s.acquire(k)
	if b == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.Ranking || b.Ranked {
		release()
		return
	}
	b.Ranking, b.Phase, b.Done, b.Total = true, "rank", 0, 0
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
		b.Ranking, b.outcomes, b.Ranked = false, out, out != nil
		if err != nil && ctx.Err() == nil {
			b.Phase = fmt.Sprintf("the queries could not be ranked: %v", err)
		}
	})
}

// guarded turns a panic of f into an error, so that one network does not end the program.
func guarded[T any](f func() (T, error)) (out T, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = errors.Join(err, fmt.Errorf("internal error: %v", e))
		}
	}()
	return f()
}
