package serve

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
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

	"vsetrain/internal/system/bind"
)

// Server answers queries. It is made by New and runs in Serve.
type Server struct {
	opt      Options
	log      *slog.Logger
	counters *counters
	slots    chan struct{} // an element for each request in progress
	embeds   chan struct{} // of them those for embeddings, whose bodies are large
	overload overload
	arriving atomic.Int64 // bytes of bodies that were read and are not answered yet
	routes   []route
	token    atomic.Pointer[string]
	ready    atomic.Pointer[ready] // nil until the images are encoded
	stopping atomic.Bool
}

// ready is what a server has once its images are encoded.
type ready struct {
	Opened
	shelves  map[string]*shelf
	info     InfoAnswer // without the splits
	reloads  reloads
	decoding chan struct{} // full while a picture is decoded: one at a time takes memory

	opt      *Options
	log      *slog.Logger
	counters *counters
	overload *overload
	token    *atomic.Pointer[string]
}

// New checks the options.
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
	return s, nil
}

// Serve answers requests on l until ctx ends: at first that it is starting, until open has opened a Searcher for each
// split. When ctx ends it accepts no more, and lets requests in progress finish. An error of open ends it.
func (s *Server) Serve(ctx context.Context, l net.Listener, open func(context.Context) (Opened, error)) error {
	run, stop := context.WithCancel(ctx)
	defer stop()
	context.AfterFunc(run, func() { s.stopping.Store(true) })
	h := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       s.opt.Timeout,
		WriteTimeout:      s.opt.Timeout + 10*time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    1 << 16,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- bind.Serve(run, h, l, s.opt.Grace) }()
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

// start makes the server ready.
func (s *Server) start(o Opened) error {
	r := &ready{Opened: o, shelves: map[string]*shelf{}, decoding: make(chan struct{}, 1), opt: &s.opt, log: s.log,
		counters: s.counters, overload: &s.overload, token: &s.token}
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

// health is the state for /healthz.
func (s *Server) health() string {
	switch {
	case s.stopping.Load():
		return "stopping"
	case s.ready.Load() == nil:
		return "starting"
	}
	return "ready"
}

// recorder notes what is answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int
}

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	n, err := w.ResponseWriter.Write(b)
	w.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController find the writer below.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// requestID is the header by which a client numbers its requests: an answer has that of its request, up to a length.
const (
	requestID    = "X-Request-Id"
	maxRequestID = 128
)

// ServeHTTP implements http.Handler. It answers and writes one line of the log.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start, rec := time.Now(), &recorder{ResponseWriter: w}
	s.counters.begin()
	path, timed := "other", false
	var cause error
	defer func() {
		if e := recover(); e != nil {
			if e == http.ErrAbortHandler {
				panic(e)
			}
			cause = fmt.Errorf("panic: %v", e)
			if rec.status == 0 {
				s.fail(rec, failureOf(cause))
			}
		}
		took := time.Since(start)
		s.counters.end(path, rec.status, took, timed && rec.status < 400)
		line := []any{"method", r.Method, "path", r.URL.Path, "status", rec.status,
			"ms", float64(took.Microseconds()) / 1000, "bytes", rec.bytes, "remote", r.RemoteAddr}
		if trace := traceOf(r); trace != "" {
			line = append(line, "trace", trace)
		}
		if cause != nil {
			s.log.Error("request", append(line, "error", cause.Error())...)
			return
		}
		s.log.Info("request", line...)
	}()
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'")
	if id := r.Header.Get(requestID); id != "" && len(id) <= maxRequestID {
		h.Set(requestID, id)
	}
	if allowOrigin(s.opt.Origins, h, r) && r.Method == http.MethodOptions {
		rec.WriteHeader(http.StatusNoContent)
		return
	}
	rt, err := s.find(r)
	if rt != nil {
		path, timed = rt.path, rt.method == http.MethodPost
	}
	if err == nil {
		err = s.serve(rec, r, rt)
	}
	if err != nil {
		f := failureOf(err)
		cause = f.cause
		if r.Context().Err() != nil && f.status == statusGone {
			rec.status = statusGone // nobody reads an answer
			return
		}
		s.fail(rec, f)
	}
}

// find returns the route of a request that may be served at all.
func (s *Server) find(r *http.Request) (*route, error) {
	var found *route
	var methods []string
	for i, rt := range s.routes {
		if rt.path != r.URL.Path {
			continue
		}
		methods = append(methods, rt.method)
		if rt.method == r.Method || rt.method == http.MethodGet && r.Method == http.MethodHead {
			found = &s.routes[i]
		}
	}
	if *s.token.Load() == "" && !bind.AllowedHost(r.Host, s.opt.Hosts) {
		return found, &failure{status: http.StatusMisdirectedRequest, code: "host",
			message: "without a token this server answers to localhost and IP addresses only; allow a host name with " +
				"--allow-host NAME"}
	}
	if (found == nil || !found.open) && !s.authorized(r) {
		return found, &failure{status: http.StatusUnauthorized, code: "unauthorized",
			message: "expected the header Authorization: Bearer TOKEN with the token of the server"}
	}
	switch {
	case methods == nil:
		return nil, &failure{status: http.StatusNotFound, code: "not_found",
			message: "no such path; /openapi.json lists all"}
	case found == nil:
		return nil, &failure{status: http.StatusMethodNotAllowed, code: "method_not_allowed",
			message: "expected " + strings.Join(methods, " or ")}
	}
	return found, nil
}

// authorized compares the token of a request, in a time that does not depend on where it differs.
func (s *Server) authorized(r *http.Request) bool {
	token := *s.token.Load()
	if token == "" {
		return true
	}
	scheme, bearer, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(strings.TrimSpace(bearer))), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// serve lets a request in, if there is room for it, and answers it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt *route) error {
	c := &call{Request: r, writer: w}
	if rt.method != http.MethodPost {
		return rt.handle(c)
	}
	if c.ready = s.ready.Load(); s.health() != "ready" {
		return &failure{status: http.StatusServiceUnavailable, code: s.health(),
			message: "the server is " + s.health() + "; try again later"}
	}
	limit := int64(searchBody)
	if rt.embeds || rt.name == "search" && r.ContentLength > limit && c.ready.Pictures != nil {
		// whose bodies are large: memory for as many as there are places
		leave, err := enter(s.embeds)
		if err != nil {
			return err
		}
		defer leave()
		limit = s.opt.MaxBody
	}
	// A request has a place in the queue only when it is there as a whole: who sends slowly waits for himself.
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

// enter takes a place in a room, if there is one.
func enter(room chan struct{}) (leave func(), err error) {
	select {
	case room <- struct{}{}:
		return func() { <-room }, nil
	default:
		return nil, busy(cap(room))
	}
}

func busy(inProgress int) error {
	return &failure{status: http.StatusTooManyRequests, code: "busy",
		message: fmt.Sprintf("%d requests are in progress; try again later", inProgress)}
}

// maxArriving bounds the bytes of bodies that are on their way, of all requests together.
const maxArriving = 256 << 20

// body reads the body of a request, in the time that a request has.
func (s *Server) body(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// A server of tests has no deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opt.Timeout))
	var all bytes.Buffer
	defer func() { s.arriving.Add(-int64(all.Len())) }()
	from := http.MaxBytesReader(w, r.Body, limit)
	var big *http.MaxBytesError
	for {
		n, err := io.CopyN(&all, from, 64<<10)
		if s.arriving.Add(n) > maxArriving {
			return nil, &failure{status: http.StatusTooManyRequests, code: "busy",
				message: "too many large requests are on their way; try again later"}
		}
		switch {
		case err == io.EOF:
			return all.Bytes(), nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, &failure{status: http.StatusRequestTimeout, code: "slow",
				message: "the request took too long to arrive"}
		case errors.As(err, &big):
			return nil, err
		case err != nil:
			return nil, badRequest("the body: %v", err)
		}
	}
}

// searchBody bounds the body of a search: a vector of some ten thousand numbers.
const searchBody = 1 << 20

// fail answers with an error.
func (s *Server) fail(w http.ResponseWriter, f *failure) {
	switch f.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.TrimPrefix(strings.ReplaceAll(f.message, " or ", ", "), "expected "))
	}
	_ = reply(w, f.status, ErrorAnswer{ErrorInfo{f.code, f.message}})
}

// reply writes a JSON body.
func reply(w http.ResponseWriter, status int, body any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		return nil // the client went away
	}
	return nil
}
