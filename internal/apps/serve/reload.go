package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/pictures"
)

// served is an index that answers. It stays open while requests use it.
type served struct {
	searcher Searcher
	batcher  *batcher
	version  int
	since    time.Time
	users    sync.WaitGroup // requests, and the shelf
}

func (r *ready) index(x Searcher, version int) *served {
	b := newBatcher(x, r.opt.Window, r.opt.Queue, r.counters, &r.overload)
	v := &served{searcher: x, batcher: b, version: version, since: time.Now()}
	v.users.Add(1)
	return v
}

func (v *served) close() error {
	v.users.Wait()
	v.batcher.close()
	return v.searcher.Close()
}

// shelf holds the index of a split that answers now.
type shelf struct {
	mu  sync.Mutex
	now *served
}

// take returns the index; the caller must call users.Done.
func (h *shelf) take() *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now.users.Add(1)
	return h.now
}

// put replaces the index and returns the earlier one, which the caller closes.
func (h *shelf) put(v *served) *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.now
	h.now = v
	old.users.Done()
	return old
}

func (r *ready) close() error {
	r.reloads.wait()
	var errs []error
	for _, h := range r.shelves {
		h.now.users.Done()
		errs = append(errs, h.now.close())
	}
	return errors.Join(errs...)
}

// reloads runs one reload at a time. Requests that arrive during a reload share the next one. A reload waits until the
// earlier index is closed, so at most two indexes of a split are in memory.
type reloads struct {
	mu      sync.Mutex // guards next
	running sync.Mutex
	next    *reloading // has not begun
	all     sync.WaitGroup
	closing sync.WaitGroup // earlier indexes whose last requests have not ended
}

type reloading struct {
	done   chan struct{}
	answer ReloadAnswer
	err    error
}

// join returns the next reload and starts it if the caller is the first.
func (r *reloads) join(run func(*reloading)) *reloading {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next != nil {
		return r.next
	}
	l := &reloading{done: make(chan struct{})}
	r.next = l
	r.all.Go(func() {
		r.running.Lock()
		defer r.running.Unlock()
		r.mu.Lock()
		r.next = nil // it begins, so later requests share another one
		r.mu.Unlock()
		run(l)
		close(l.done)
	})
	return l
}

func (r *reloads) wait() {
	r.all.Wait()
	r.closing.Wait()
}

var errNotReloaded = unprocessable("this server does not reload")

// Reload reads the splits and the token of a server again and returns when they are in use. Until then, and if they
// cannot be read, the earlier ones are used. The end of ctx ends the waiting, but not the reload.
func Reload(ctx context.Context, s *Server) (ReloadAnswer, error) {
	r := s.ready.Load()
	if r == nil {
		return ReloadAnswer{}, errNotReloaded
	}
	return r.reload(ctx)
}

func (r *ready) reload(ctx context.Context) (ReloadAnswer, error) {
	if r.opt.Renew == nil {
		return ReloadAnswer{}, errNotReloaded
	}
	l := r.reloads.join(r.renew)
	select {
	case <-l.done:
		return l.answer, l.err
	case <-ctx.Done():
		return ReloadAnswer{}, ctx.Err()
	}
}

func (r *ready) renew(l *reloading) {
	r.reloads.closing.Wait()
	start := time.Now()
	l.answer.Splits = []ReloadedSplit{}
	var errs []error
	if r.opt.NewToken != nil {
		errs = append(errs, r.renewToken())
	}
	for _, name := range r.opt.Splits {
		split, err := r.renewSplit(r.shelves[name], name)
		if err != nil {
			errs = append(errs, fmt.Errorf("split %s: %w", name, err))
		}
		l.answer.Splits = append(l.answer.Splits, split)
	}
	l.answer.Seconds = time.Since(start).Seconds()
	l.err = errors.Join(errs...)
	if l.err != nil {
		r.counters.add(func() { r.counters.failed++ })
		r.log.Error("reload", "error", l.err.Error())
		return
	}
	r.counters.add(func() { r.counters.reloaded++ })
	for _, split := range l.answer.Splits {
		r.log.Info("reload", "split", split.Name, "images", split.Images, "version", split.Version, "embedded",
			split.Embedded, "seconds", l.answer.Seconds)
	}
}

// renewToken reads the token again. A server that needs a token keeps needing one.
func (r *ready) renewToken() error {
	token, err := r.opt.NewToken()
	if err == nil {
		err = web.CheckToken(token)
	}
	if err == nil && token == "" && *r.token.Load() != "" {
		err = errors.New("the token is empty now; the earlier one stays in use")
	}
	if err == nil {
		r.token.Store(&token)
	}
	return err
}

// renewSplit reads a split again and replaces its index.
func (r *ready) renewSplit(h *shelf, name string) (a ReloadedSplit, err error) {
	defer func() {
		if e := recover(); e != nil {
			err = fmt.Errorf("panic: %v", e)
		}
	}()
	old := h.take()
	defer old.users.Done()
	x, embedded, err := r.opt.Renew(context.Background(), name, old.searcher)
	a = ReloadedSplit{Name: name, Version: old.version, Images: old.searcher.Info().Images}
	if err != nil || x == old.searcher {
		return a, err
	}
	v := r.index(x, old.version+1)
	a.Version, a.Images, a.Embedded = v.version, x.Info().Images, embedded
	before := h.put(v)
	r.reloads.closing.Go(func() {
		if err := before.close(); err != nil {
			r.log.Error("the earlier index", "error", err.Error())
		}
	})
	return a, nil
}

// watch reloads when sizes or times of the files of a split have changed.
func (r *ready) watch(ctx context.Context) {
	if r.opt.Watch == 0 || r.opt.Renew == nil {
		return
	}
	tick := time.NewTicker(r.opt.Watch)
	defer tick.Stop()
	before := r.stamp()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if now := r.stamp(); now != before {
			before = now
			_, _ = r.reload(ctx) // which logs its error
		}
	}
}

// stamp returns sizes and times of the files of all splits.
func (r *ready) stamp() string {
	var all strings.Builder
	for _, name := range r.opt.Splits {
		x := r.shelves[name].take()
		dir := x.searcher.Info().Data
		x.users.Done()
		entries, err := os.ReadDir(dir)
		if err != nil {
			fmt.Fprintln(&all, err)
		}
		for _, e := range entries { // in order of their names
			if i, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), name+"_") {
				fmt.Fprintln(&all, dir, e.Name(), i.Size(), i.ModTime().UnixNano())
			}
		}
	}
	return all.String()
}

func reloadSplits(c *call, _ ReloadRequest) (ReloadAnswer, error) {
	a, err := c.ready.reload(c.Context())
	return a, notServed(err)
}

// notServed returns the answer to a reload that failed.
func notServed(err error) error {
	if err == nil || errors.Is(err, errNotReloaded) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, context.Canceled) {
		return err
	}
	return web.Errorf(http.StatusUnprocessableEntity, "not_reloaded", "%v", err)
}

func (r *ready) gallery() (Gallery, error) {
	if r.Gallery == nil || r.opt.Renew == nil {
		return nil, web.Errorf(http.StatusForbidden, "read_only",
			"this server accepts no changes; start it with --allow-changes")
	}
	return r.Gallery, nil
}

func addImage(c *call, q AddRequest) (a ChangeAnswer, err error) {
	g, err := c.ready.gallery()
	if err != nil {
		return a, err
	}
	split := or(q.Split, c.ready.opt.Splits[0])
	err = c.ready.decoded(c.Context(), q.Picture, func(p *pictures.RGB) error {
		return g.Add(c.Context(), split, q.ID, p)
	})
	if err != nil {
		return a, err
	}
	return c.ready.changed(c.Context(), split)
}

func removeImages(c *call, q RemoveRequest) (a ChangeAnswer, err error) {
	g, err := c.ready.gallery()
	if err != nil {
		return a, err
	}
	split := or(q.Split, c.ready.opt.Splits[0])
	if err := g.Remove(c.Context(), split, q.IDs); err != nil {
		return a, err
	}
	return c.ready.changed(c.Context(), split)
}

// changed reloads after a change and returns its answer.
func (r *ready) changed(ctx context.Context, split string) (ChangeAnswer, error) {
	a, err := r.reload(ctx)
	if err != nil {
		return ChangeAnswer{}, notServed(err)
	}
	at := slices.IndexFunc(a.Splits, func(s ReloadedSplit) bool { return s.Name == split })
	if at < 0 {
		return ChangeAnswer{}, fmt.Errorf("split %s was not reloaded", split)
	}
	return ChangeAnswer{Split: split, Images: a.Splits[at].Images, Version: a.Splits[at].Version}, nil
}

// decoded decodes a picture of a request and calls use with it. Only one request decodes at a time.
func (r *ready) decoded(ctx context.Context, b []byte, use func(*pictures.RGB) error) error {
	return r.decoding.Decode(ctx, b, func(p *pictures.RGB, err error) error {
		if err != nil {
			return unprocessable("the picture: %v", err)
		}
		return use(p)
	})
}

func (r *ready) embedPictures(ctx context.Context, x *served, files [][]byte) ([]float32, error) {
	if _, err := x.searcher.Dims(); err != nil {
		return nil, err
	}
	if r.Pictures == nil {
		return nil, unprocessable("this server takes no pictures: %s", r.NoPictures)
	}
	var features []float32
	for _, b := range files {
		err := r.decoded(ctx, b, func(p *pictures.RGB) error {
			y, err := r.Pictures.Picture(ctx, p)
			features = append(features, y...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return x.searcher.ImageRows(ctx, features)
}

func (r *ready) writeIndex(w io.Writer) {
	for _, m := range []struct {
		name, help string
		value      func(*served) float64
	}{
		{"images", "Images that are served.", func(v *served) float64 { return float64(v.searcher.Info().Images) }},
		{"version", "Version of the index, which grows when images come or go.",
			func(v *served) float64 { return float64(v.version) }},
		{"age_seconds", "Seconds since this version was first served.",
			func(v *served) float64 { return time.Since(v.since).Seconds() }},
	} {
		metric(w, "index_"+m.name, "gauge", m.help)
		for _, name := range r.opt.Splits {
			v := r.shelves[name].take()
			fmt.Fprintf(w, "vsetrain_index_%s{split=%q} %g\n", m.name, name, m.value(v))
			v.users.Done()
		}
	}
}
