// Package web is the common part of the program's HTTP servers.
//
// For every request it sets common headers, checks the host and the length of the query, and calls the handler of the
// server. The server formats errors and panics of the handler as answers and logs every answer. A server that stops
// finishes the requests in progress.
package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"
)

// Site is an HTTP server: its handler, its answers and its limits.
type Site struct {
	Begin  func(w http.ResponseWriter, r *http.Request) // is called first for each request; may be nil
	Handle func(w http.ResponseWriter, r *http.Request) error
	Fail   func(w http.ResponseWriter, r *http.Request, e *Error) // writes an error, before anything else is written
	Done   func(a *Answer)                                        // is called for each answer; may be nil

	Policy  string            // Content-Security-Policy of the answers
	Hosts   []string          // host names that may be used in addition to localhost and IP addresses
	AnyHost func() bool       // reports whether any host name may be used, such as with a token; nil is never
	Of      func(error) error // turns errors of the handler into an *Error; may be nil

	Read, Write time.Duration // limits for the arrival of a request and for its answer
	Grace       time.Duration // for requests in progress when the server stops
	ErrorLog    *log.Logger   // of connections; nil is the logger of the package log
}

// Answer describes the answer to a request.
type Answer struct {
	*http.Request
	Status, Bytes int
	Took          time.Duration
	Cause         error // of an internal error, for the log only; otherwise nil
}

// Error is an answer with a status of 400 or above.
type Error struct {
	Status  int
	Code    string // for programs
	Message string // for people
	Cause   error  // for the log only; may be nil
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Errorf returns an answer with a message for people.
func Errorf(status int, code, format string, args ...any) *Error {
	return &Error{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// BadRequest is the answer to a request that cannot be understood.
func BadRequest(format string, args ...any) *Error {
	return Errorf(http.StatusBadRequest, "bad_request", format, args...)
}

// statusGone is logged for a request whose client went away, as in nginx.
const statusGone = 499

// errorOf returns the answer to an error.
func (s *Site) errorOf(err error) *Error {
	if s.Of != nil {
		err = s.Of(err)
	}
	var e *Error
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &e):
		return e
	case errors.As(err, &big):
		return Errorf(http.StatusRequestEntityTooLarge, "too_large", "the request has more than %d bytes", big.Limit)
	case errors.Is(err, context.DeadlineExceeded):
		return Errorf(http.StatusGatewayTimeout, "timeout", "the answer took too long")
	case errors.Is(err, context.Canceled):
		return Errorf(statusGone, "gone", "the client went away")
	}
	return &Error{http.StatusInternalServerError, "internal", "internal error; see the server log", err}
}

// recorder records status and length of an answer.
type recorder struct {
	http.ResponseWriter
	status, bytes int
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

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec, a, start := &recorder{ResponseWriter: w}, &Answer{Request: r}, time.Now()
	if s.Begin != nil {
		s.Begin(w, r)
	}
	if err := s.answer(rec, r); err != nil {
		e := s.errorOf(err)
		switch a.Cause = e.Cause; {
		case r.Context().Err() != nil && e.Status == statusGone:
			rec.status = statusGone // nobody reads an answer
		case rec.status == 0:
			s.Fail(rec, r, e)
		}
	}
	if a.Status, a.Bytes, a.Took = rec.status, rec.bytes, time.Since(start); s.Done != nil {
		s.Done(a)
	}
}

func (s *Site) answer(w http.ResponseWriter, r *http.Request) (err error) {
	defer func() {
		switch e := recover(); e {
		case nil:
		case http.ErrAbortHandler:
			panic(e)
		default:
			err = fmt.Errorf("panic: %v", e)
		}
	}()
	for name, value := range map[string]string{
		"Content-Security-Policy":      s.Policy,
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cache-Control":                "no-store",
	} {
		w.Header().Set(name, value)
	}
	if err := s.guard(r); err != nil {
		return err
	}
	return s.Handle(w, r)
}

// ErrCutOff is returned by Serve if requests in progress took longer than Grace.
var ErrCutOff = errors.New("requests in progress were cut off")

// Serve answers requests on l until ctx ends. Then it accepts no more and lets requests in progress finish. After Grace
// it cuts them off and returns ErrCutOff.
func (s *Site) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: s.Read,
		WriteTimeout: s.Write, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 1 << 16, ErrorLog: s.ErrorLog}, l, s.Grace)
}

func serve(ctx context.Context, h *http.Server, l net.Listener, grace time.Duration) error {
	if streams, ok := l.(*Stdio); ok {
		h.Handler = streams.answered(h.Handler)
	}
	done := make(chan error, 1)
	go func() { done <- h.Serve(l) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	rest, stop := context.WithTimeout(context.Background(), grace)
	defer stop()
	if err := h.Shutdown(rest); err != nil {
		h.Close()
		return fmt.Errorf("%w: they took more than %v", ErrCutOff, grace)
	}
	return nil
}
