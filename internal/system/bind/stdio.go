package bind

import (
	"io"
	"net"
	"sync"
	"time"
)

// Stdio is a listener whose only connection is a pair of streams: a program that started this one asks through them,
// without a port. Accept returns the connection once ready is closed, and io.EOF once it has ended.
type Stdio struct {
	ready <-chan struct{}
	conn  net.Conn // the server's end
	begun bool     // the connection was accepted
	ended chan struct{}
	end   func()
}

// NewStdio connects a server with streams: it reads requests from in, until its end, and writes answers to out.
func NewStdio(in io.Reader, out io.Writer, ready <-chan struct{}) *Stdio {
	here, there := net.Pipe()
	s := &Stdio{ready: ready, conn: lasting{here}, ended: make(chan struct{})}
	s.end = sync.OnceFunc(func() {
		there.Close()
		close(s.ended)
	})
	copies := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from) // the other side notices an error: it is the end
		s.end()
	}
	go copies(there, in)
	go copies(out, there)
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

// lasting is a connection that no time in the future ends: who is at its other end may think for hours. A deadline in
// the past, by which net/http ends its own reading, holds.
type lasting struct{ net.Conn }

func (c lasting) SetDeadline(t time.Time) error      { return c.Conn.SetDeadline(past(t)) }
func (c lasting) SetReadDeadline(t time.Time) error  { return c.Conn.SetReadDeadline(past(t)) }
func (c lasting) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(past(t)) }

func past(t time.Time) time.Time {
	if time.Until(t) > 0 {
		return time.Time{}
	}
	return t
}
