// Package web is what the HTTP servers of the program share.
//
// Every request passes, in this order: the headers of each answer, the check of the host, the limit of the query, the
// handler of the server. What the handler returns as an error, and a panic, becomes an answer in the form of the
// server, and the server is told of every answer for its log. When it is told to stop, a server finishes the requests
// in progress.
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

// Site is what a server answers, and to whom.
type Site struct {
	Begin  func(w http.ResponseWriter, r *http.Request) // is told of each request before anything else; nil is not
	Handle func(w http.ResponseWriter, r *http.Request) error
	Fail   func(w http.ResponseWriter, r *http.Request, e *Error) // answers with an error; nothing was written before
	Done   func(a *Answer)                                        // is told of each answer; nil is not

	Policy  string            // Content-Security-Policy of the answers
	Hosts   []string          // names under which it may be called, beside localhost and IP addresses
	AnyHost func() bool       // whether it may be called under any name now, such as with a token; nil is never
	Of      func(error) error // turns errors of the handler that are no *Error into one where it knows them; may be nil

	Read, Write time.Duration // a request has to arrive and to be answered
	Grace       time.Duration // in which requests in progress may end when it stops
	ErrorLog    *log.Logger   // of connections; nil is the logger of the package log
}

// Answer is what became of a request.
type Answer struct {
	*http.Request
	Status, Bytes int
	Took          time.Duration
	Cause         error // of an error that the client is not told of; nil without
}

// Error is an answer with a status of 400 or above.
type Error struct {
	Status  int
	Code    string // for programs
	Message string // for people
	Cause   error  // for the log; nil where the message says all
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

// StatusGone is what the log has for a request whose client went away (nginx's number).
const StatusGone = 499

// errorOf is the answer to an error.
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
		return Errorf(StatusGone, "gone", "the client went away")
	}
	return &Error{http.StatusInternalServerError, "internal", "internal error; the log of the server tells more", err}
}

// recorder notes what is answered.
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
		case r.Context().Err() != nil && e.Status == StatusGone:
			rec.status = StatusGone // nobody reads an answer
		case rec.status == 0:
			s.Fail(rec, r, e)
		}
	}
	if a.Status, a.Bytes, a.Took = rec.status, rec.bytes, time.Since(start); s.Done != nil {
		s.Done(a)
	}
}

// answer checks a request and has it handled.
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

// ErrCutOff is the error of a server that was told to stop and whose requests in progress took too long.
var ErrCutOff = errors.New("requests in progress were cut off")

// Serve answers requests on l until ctx ends. Then it accepts no more and lets those in progress finish, for at most
// the time of Grace; after that it cuts them off and returns ErrCutOff.
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
