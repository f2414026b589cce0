package launch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

// Fact is something that all ranks must agree on, such as a setting.
type Fact struct{ Key, Value string }

// The kinds of messages, each a line of JSON.
const (
	hello   = "hello"   // of a rank: who it is
	welcome = "welcome" // to all: the ranks are complete and agree
	refused = "refused" // to a process that may not join
	beat    = "beat"    // both ways: I live
	stop    = "stop"    // both ways: stop at the next step
	failed  = "failed"  // both ways: a rank cannot go on
	done    = "done"    // of a rank: its work is complete
	end     = "end"     // to all: so is that of all others
	share   = "share"   // of rank 0, and then to all: what devices find each other by
	wait    = "wait"    // of a rank: it waits for the others; to all: all do
)

type message struct {
	Kind string

	Number int `json:",omitempty"` // of a wait, counted by each rank

	Rank  int    `json:",omitempty"` // of the rank that is meant
	Text  string `json:",omitempty"`
	Lost  bool   `json:",omitempty"`
	PMIID int    `json:",omitempty"`

	Ranks   int    `json:",omitempty"` // these are of a hello
	Token   string `json:",omitempty"`
	PID     int    `json:",omitempty"`
	Host    string `json:",omitempty"`
	Machine string `json:",omitempty"` // where processes share memory
	Facts   []Fact `json:",omitempty"`
}

// Failure is why a rank must end though it can go on: a rank failed or was lost.
type Failure struct {
	Rank int
	Text string
	Lost bool // the rank was killed, hangs, or was interrupted; the run can be resumed
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

func (f *Failure) message() *message {
	return &message{Kind: failed, Rank: f.Rank, Text: f.Text, Lost: f.Lost}
}

// longest is the size of a line at most; a hello has all settings.
const longest = 1 << 20

// link is one end of a connection. It sends a beat each tenth of the time after which the other end counts as dead.
type link struct {
	net.Conn

	in   *bufio.Scanner
	dead time.Duration
	mu   sync.Mutex // of writes
	done chan struct{}
	once sync.Once
}

func newLink(c net.Conn, in *bufio.Reader, dead time.Duration) *link {
	l := &link{Conn: c, in: bufio.NewScanner(patient{c, in, dead}), dead: dead, done: make(chan struct{})}
	l.in.Buffer(nil, longest)
	return l
}

// errNotOurs is the error of an end that speaks something else.
var errNotOurs = errors.New("expected a message of vsetrain")

// errDead is the error of an end that sends nothing any more.
var errDead = errors.New("sends nothing")

// patient reads until nothing came for the time of death. A process that was stopped and goes on, as after Ctrl-Z,
// finds its own time over: it gives the other end a fifth of it to be heard.
type patient struct {
	conn net.Conn
	in   *bufio.Reader
	dead time.Duration
}

// Read implements io.Reader.
func (p patient) Read(b []byte) (n int, err error) {
	for _, wait := range []time.Duration{p.dead * 4 / 5, p.dead / 5} {
		if err = p.conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return 0, err
		}
		if n, err = p.in.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	return 0, fmt.Errorf("%w for %v", errDead, p.dead)
}

// beats sends beats until the link is closed.
func (l *link) beats() {
	every := time.NewTicker(l.dead / 10)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			l.send(message{Kind: beat})
		case <-l.done:
			return
		}
	}
}

// send writes a message, whole or not at all. Its error is that of the connection, which the reader of the link sees
// too; where a part was written in the time there was, the connection ends, since the next message would be read as the
// rest of this one.
func (l *link) send(m message) {
	line, err := json.Marshal(m)
	if err != nil {
		panic(err) // a message is numbers and texts
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.SetWriteDeadline(time.Now().Add(l.dead / 5))
	if n, err := l.Write(append(line, '\n')); err != nil && n > 0 {
		l.Conn.Close()
	}
}

// receive returns the next message that is no beat.
func (l *link) receive() (m message, err error) {
	for l.in.Scan() {
		m = message{}
		if err := json.Unmarshal(l.in.Bytes(), &m); err != nil || m.Kind == "" {
			return m, fmt.Errorf("%w, found %.60q", errNotOurs, l.in.Text())
		}
		if m.Kind != beat {
			return m, nil
		}
	}
	if err = l.in.Err(); err == nil {
		err = net.ErrClosed
	}
	return m, err
}

func (l *link) close() {
	l.once.Do(func() {
		close(l.done)
		l.Conn.Close()
	})
}
