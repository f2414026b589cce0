package web

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// Stdio is a listener whose only connection is a pair of streams, through which the parent process sends requests
// without a port. Accept returns the connection when ready is closed, and io.EOF when the connection has ended.
type Stdio struct {
	ready <-chan struct{}
	conn  net.Conn // the server's end
	begun bool     // the connection was accepted
	ended chan struct{}
	end   func()
}

// NewStdio connects a server with streams: it reads requests from in and writes answers to out. Every request that has
// arrived is answered, even if in ends before ready is closed or while a request is handled. The connection ends after
// in has ended and the last request is answered.
func NewStdio(in io.Reader, out io.Writer, ready <-chan struct{}) *Stdio {
	here, there := net.Pipe()
	s := &Stdio{ready: ready, ended: make(chan struct{})}
	s.end = sync.OnceFunc(func() { close(s.ended) })
	s.conn = lasting{here, out, s.end}
	go func() {
		requests := bufio.NewReader(in)
		if _, err := requests.Peek(1); err != nil {
			s.end()
		}
		_, _ = io.Copy(there, requests) // an error of in is its end
		there.Close()                   // the server reads this after all requests
	}()
	return s
}

// Accept implements net.Listener. It is called by one goroutine.
func (s *Stdio) Accept() (net.Conn, error) {
	if !s.begun {
		select {
		case <-s.ready:
			s.begun = true
			return s.conn, nil
		case <-s.ended:
		}
	}
	<-s.ended
	return nil, io.EOF
}

// Close implements net.Listener.
func (s *Stdio) Close() error {
	s.end()
	return nil
}

// Addr implements net.Listener.
func (s *Stdio) Addr() net.Addr { return s.conn.LocalAddr() }

// answered returns the handler for requests of the streams. net/http ends the context of a request when its connection
// ends, but here that is only the end of the input.
func (s *Stdio) answered(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}

// lasting is a connection without deadlines in the future, because the other end may pause for hours. Deadlines in the
// past, with which net/http ends its own reading, are kept. It writes to another stream than it reads from.
type lasting struct {
	net.Conn
	out io.Writer
	end func()
}

func (c lasting) SetDeadline(t time.Time) error     { return c.Conn.SetDeadline(past(t)) }
func (c lasting) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(past(t)) }
func (c lasting) SetWriteDeadline(time.Time) error  { return nil }
func (c lasting) Write(b []byte) (int, error)       { return c.out.Write(b) }
func (c lasting) Close() error {
	c.end()
	return c.Conn.Close()
}

func past(t time.Time) time.Time {
	if time.Until(t) > 0 {
		return time.Time{}
	}
	return t
}
