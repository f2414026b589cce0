package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"vsetrain/data"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/files/pictures"
)

// Server answers queries. New makes it, Serve runs it.
type Server struct {
	opt      Options
	site     *web.Site
	log      *slog.Logger
	counters *counters
	slots    chan struct{} // an element for each request in progress
	embeds   chan struct{} // an element for each request in progress with a large body
	overload overload
	arriving atomic.Int64 // bytes of bodies being read
	routes   []route
	token    atomic.Pointer[string]
	ready    atomic.Pointer[ready] // nil until the images are encoded
	stopping atomic.Bool
}

// ready is the state of a server whose images are encoded.
type ready struct {
	*Server
	Opened
	shelves  map[string]*shelf
	info     InfoAnswer // without the splits
	reloads  reloads
	decoding *pictures.Turn
}

// New returns a server for the options, which it checks.
func New(o Options) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o.setDefaults()
	s := &Server{opt: o, counters: newCounters(), slots: make(chan struct{}, o.Queue),
		embeds: make(chan struct{}, max(1, o.Queue/8))}
	s.token.Store(&o.Token)
	var lines slog.Handler = slog.NewTextHandler(o.Log, nil)
	if o.JSON {
		lines = slog.NewJSONHandler(o.Log, nil)
	}
	s.log = slog.New(lines)
	s.routes = s.table()
	s.site = &web.Site{Begin: func(w http.ResponseWriter, r *http.Request) {
		s.counters.add(func() { s.counters.inFlight++ })
		number(w, r)
	}, Handle: s.handle, Fail: fail, Done: s.done, Of: known, Hosts: o.Hosts,
		AnyHost: func() bool { return *s.token.Load() != "" }, Policy: "default-src 'none'",
		Read: o.Timeout, Write: o.Timeout + 10*time.Second, Grace: o.Grace,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)}
	return s, nil
}

// Serve answers requests on l until ctx ends or open fails. Until open has returned a Searcher for each split, it
// answers that it is starting. When ctx ends, it accepts no more requests and lets requests in progress finish.
func (s *Server) Serve(ctx context.Context, l net.Listener, open func(context.Context) (Opened, error)) error {
	run, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(run, func() { s.stopping.Store(true) })
	served := make(chan error, 1)
	go func() { served <- s.site.Serve(run, l) }()
	opened, err := open(run)
	if err == nil {
		err = s.start(opened)
	}
	if err != nil {
		stop()
		<-served
		return err
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.ready.Load().watch(run)
	}()
	err = <-served
	stop()
	<-watched
	return errors.Join(err, s.ready.Load().close())
}

// Log is where the server writes what it does.
func (s *Server) Log() *slog.Logger { return s.log }

func (s *Server) start(o Opened) error {
	r := &ready{Server: s, Opened: o, shelves: map[string]*shelf{}, decoding: pictures.NewTurn()}
	r.info = InfoAnswer{Version: s.opt.Version, Checkpoints: []string{}, Limits: LimitsInfo{
		MaxK: s.opt.MaxK, MaxItems: s.opt.MaxItems, MaxBody: s.opt.MaxBody, Queue: s.opt.Queue,
		TimeoutSeconds: s.opt.Timeout.Seconds()}}
	for at, name := range s.opt.Splits {
		x := o.Searchers[name]
		if x == nil {
			return fmt.Errorf("split %q was not opened", name)
		}
		if i := x.Info(); at == 0 {
			r.info.Network, r.info.Shortlist = i.Network, i.Shortlist
			r.info.Checkpoints = append(r.info.Checkpoints, i.Checkpoints...)
			if d, err := x.Dims(); err == nil {
				r.info.Embeds, r.info.Dim, r.info.Regions, r.info.Feature = true, d.Embedding, d.Regions, d.Feature
			}
		}
		r.shelves[name] = &shelf{now: r.index(x, 1)}
	}
	r.info.Pictures, r.info.Changes = o.Pictures != nil && r.info.Embeds, o.Gallery != nil
	if r.NoPictures = cmp.Or(r.NoPictures, "start it with --extractor FILE.onnx"); !r.info.Pictures {
		r.info.NoPictures = r.NoPictures
	}
	s.ready.Store(r)
	if s.opt.Ready != nil {
		s.opt.Ready()
	}
	return nil
}

func (s *Server) health() string {
	switch {
	case s.stopping.Load():
		return "stopping"
	case s.ready.Load() == nil:
		return "starting"
	}
	return "ready"
}

// requestID is the header with which clients number their requests. An answer repeats it, up to a length.
const (
	requestID    = "X-Request-Id"
	maxRequestID = 128
)

func number(w http.ResponseWriter, r *http.Request) {
	if id := r.Header.Get(requestID); id != "" && len(id) <= maxRequestID {
		w.Header().Set(requestID, id)
	}
}

func (s *Server) done(a *web.Answer) {
	path, timed := "other", false
	if rt, _ := s.find(a.Request); rt != nil {
		path, timed = rt.path, rt.method == http.MethodPost && a.Status < 400
	}
	s.counters.end(path, a.Status, a.Took, timed)
	line := []any{"method", a.Method, "path", a.URL.Path, "status", a.Status,
		"ms", float64(a.Took.Microseconds()) / 1000, "bytes", a.Bytes, "remote", a.RemoteAddr}
	if trace := web.Trace(a.Request); trace != "" {
		line = append(line, "trace", trace)
	}
	if a.Cause != nil {
		s.log.Error("request", append(line, "error", a.Cause.Error())...)
		return
	}
	s.log.Info("request", line...)
}

// find returns the route of a request and the methods of its path.
func (s *Server) find(r *http.Request) (found *route, methods []string) {
	for i, rt := range s.routes {
		if rt.path != r.URL.Path {
			continue
		}
		methods = append(methods, rt.method)
		if rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead {
			found = &s.routes[i]
		}
	}
	return found, methods
}

// handle answers a request from an allowed host.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) error {
	if web.AllowOrigin(s.opt.Origins, w.Header(), r) && r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	rt, methods := s.find(r)
	switch token := *s.token.Load(); {
	case token != "" && (rt == nil || !rt.open) && !web.Bears(r, token):
		return web.Errorf(http.StatusUnauthorized, "unauthorized",
			"expected the header Authorization: Bearer TOKEN with the token of the server")
	case methods == nil:
		return web.Errorf(http.StatusNotFound, "not_found", "no such path; /openapi.json lists all")
	case rt == nil:
		w.Header().Set("Allow", strings.Join(methods, ", "))
		return web.Errorf(http.StatusMethodNotAllowed, "method_not_allowed", "expected %s",
			strings.Join(methods, " or "))
	}
	return s.serve(w, r, rt)
}

// serve answers a request, or refuses it if there is no room.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt *route) error {
	c := &call{Request: r, writer: w}
	if rt.method != http.MethodPost {
		return rt.handle(c)
	}
	if c.ready = s.ready.Load(); s.health() != "ready" {
		return unready(s.health())
	}
	limit := int64(searchBody)
	if rt.embeds || rt.name == "search" && r.ContentLength > limit && c.ready.Pictures != nil {
		// large bodies: the places bound their memory
		leave, err := enter(s.embeds)
		if err != nil {
			return err
		}
		defer leave()
		limit = s.opt.MaxBody
	}
	// A request gets a place in the queue only when all of it has arrived: a slow client must not block others.
	body, err := s.body(w, r, limit)
	if err != nil {
		return err
	}
	leave, err := enter(s.slots)
	if err != nil {
		return s.overload.refuse(err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), s.opt.Timeout)
	defer cancel()
	c.Request = r.WithContext(ctx)
	c.Body = io.NopCloser(bytes.NewReader(body))
	return rt.handle(c)
}

func unready(health string) error {
	return web.Errorf(http.StatusServiceUnavailable, health, "the server is %s; try again later", health)
}

// enter takes a place in a room if one is free.
func enter(room chan struct{}) (leave func(), err error) {
	select {
	case room <- struct{}{}:
		return func() { <-room }, nil
	default:
		return nil, busy(cap(room))
	}
}

func busy(inProgress int) error {
	return web.Errorf(http.StatusTooManyRequests, "busy", "%d requests are in progress; try again later", inProgress)
}

// maxArriving bounds the bytes of bodies being read, of all requests together.
const maxArriving = 256 << 20

// body reads the body of a request within the time limit.
func (s *Server) body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// Recorders of tests have no deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opt.Timeout))
	var all bytes.Buffer
	defer func() { s.arriving.Add(-int64(all.Len())) }()
	from := http.MaxBytesReader(w, r.Body, limit)
	var big *http.MaxBytesError
	for {
		n, err := io.CopyN(&all, from, 64<<10)
		if s.arriving.Add(n) > maxArriving {
			return nil, web.Errorf(http.StatusTooManyRequests, "busy",
				"too many large requests are arriving; try again later")
		}
		switch {
		case err == io.EOF:
			return all.Bytes(), nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, web.Errorf(http.StatusRequestTimeout, "slow", "the request took too long to arrive")
		case errors.As(err, &big):
			return nil, err
		case err != nil:
			return nil, web.BadRequest("the body: %v", err)
		}
	}
}

// searchBody bounds the body of a search: a vector of tens of thousands of numbers.
const searchBody = 1 << 20

func fail(w http.ResponseWriter, _ *http.Request, e *web.Error) {
	switch e.Status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	_ = reply(w, e.Status, ErrorAnswer{ErrorInfo{e.Code, e.Message}})
}

func known(err error) error {
	answer := func(status int, code string) error { return web.Errorf(status, code, "%v", err) }
	var e *web.Error
	var none *search.NoEmbeddingError
	var change *data.ChangeError
	switch {
	case errors.As(err, &e):
	case errors.As(err, &none):
		return answer(http.StatusUnprocessableEntity, "no_embedding")
	case errors.Is(err, data.ErrImageExists):
		return answer(http.StatusConflict, "exists")
	case errors.Is(err, data.ErrNoImage):
		return answer(http.StatusNotFound, "no_image")
	case errors.As(err, &change), search.Refused(err):
		return answer(http.StatusUnprocessableEntity, "unprocessable")
	}
	return err
}

// unprocessable returns the answer to a request that this server cannot process.
func unprocessable(format string, args ...any) error {
	return web.Errorf(http.StatusUnprocessableEntity, "unprocessable", format, args...)
}

func reply(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // an error is a client that has gone
	return nil
}
