package launch

import (
	"bufio"
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"strings"
	"sync"
	"time"
)

// hearsay is how long a lost connection waits for the process that started the rank, which knows how it ended.
const hearsay = 200 * time.Millisecond

// reminder is the time between two notices about missing ranks.
const reminder = 30 * time.Second

// Fact is a value that all ranks must agree on, such as a setting.
type Fact struct{ Key, Value string }

// Failure is why a rank must end although it could go on: another rank failed or was lost.
type Failure struct {
	Rank int
	Text string
	Lost bool // the rank was killed, hangs, or was interrupted; the run can be resumed
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// hello is the first line of a connection, in JSON: the rank that connects.
type hello struct {
	Rank, Ranks, PID int
	Host, Token      string
	Facts            []Fact
}

func (h hello) String() string {
	return fmt.Sprintf("rank %d (process %d on %s)", h.Rank, h.PID, h.Host)
}

// welcome begins the answer. The reason for a refusal follows, or the end of the line.
const welcome = "vsetrain ranks: "

// The first and the last meeting. All others share a third name.
const (
	begin = "begin" // all ranks have connected and agree
	end   = "end"   // all ranks have finished
)

// store is where ranks exchange values and learn about each other, in the process of rank 0.
type store struct {
	zero hello // of rank 0
	dead time.Duration

	mu       sync.Mutex
	peers    []*peer // by rank; nil until it has connected
	came     int     // connections accepted so far
	open     int     // open connections
	began    bool
	meetings map[string]*meeting // those that are not complete, and the last one
	failure  *Failure
	asked    bool // a rank asked for a stop

	failed, stopping chan struct{} // closed after the first failure and the first request to stop
}

// meeting holds the values that ranks have given, by rank.
type meeting struct {
	given map[int][]byte
	full  chan struct{} // closed when all ranks have given theirs
}

// peer answers the calls of one rank (net/rpc).
type peer struct {
	*store
	hello
	left chan struct{} // closed when the connection ended
}

func newStore(zero hello, dead time.Duration) *store {
	return &store{zero: zero, dead: dead, peers: make([]*peer, zero.Ranks), meetings: map[string]*meeting{},
		failed: make(chan struct{}), stopping: make(chan struct{})}
}

// accept serves every connection until the listener is closed.
func (s *store) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

// serve serves one connection. A connection without a valid first line gets no answer, and a refused rank can make no
// calls.
func (s *store) serve(c net.Conn) {
	l := &link{Conn: c, dead: s.dead}
	defer l.Close()
	p := &peer{store: s, left: make(chan struct{})}
	line, err := l.line()
	if err != nil || json.Unmarshal([]byte(line), &p.hello) != nil || p.Ranks == 0 {
		return
	}
	why := s.admit(p)
	if fmt.Fprintln(l, welcome+why); why != "" {
		return
	}
	l.lost = p.gone
	server := rpc.NewServer()
	server.RegisterName("Store", p)
	server.ServeConn(l)
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
}

// admit accepts a rank, or says why not.
func (s *store) admit(p *peer) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch all := s.zero.Ranks; {
	case subtle.ConstantTimeCompare([]byte(p.Token), []byte(s.zero.Token)) != 1:
		return "its token is another one; set " + TokenVariable + " to the same text for all ranks, and choose a " +
			"MASTER_PORT that no other training uses"
	case p.Ranks != all || p.Rank < 0 || p.Rank >= all:
		return fmt.Sprintf("it is rank %d of %d, but rank 0 has %d ranks; start all with the same number", p.Rank,
			p.Ranks, all)
	case s.peers[p.Rank] != nil:
		return fmt.Sprintf("%v has come already; start each rank once", s.peers[p.Rank].hello)
	}
	if list := contradictions(s.zero.Facts, p.Facts); len(list) > 0 {
		s.fail(&Failure{Rank: p.Rank, Text: fmt.Sprintf("%v and %v are to do different things: %s; start all ranks "+
			"with the same program, configuration and data", p.hello, s.zero, strings.Join(list, "; "))})
	}
	s.peers[p.Rank] = p
	s.came++
	s.open++
	return ""
}

// contradictions names at most three facts that differ between rank 0 and another rank.
func contradictions(zero, other []Fact) (list []string) {
	values := map[string]string{}
	for _, f := range other {
		values[f.Key] = f.Value
	}
	for _, f := range zero {
		if v, ok := values[f.Key]; ok && v != f.Value && len(list) < 3 {
			list = append(list, fmt.Sprintf("%s is %s, but %s on rank 0", f.Key, v, f.Value))
		}
	}
	return list
}

// Gift is the value that a rank gives at a meeting.
type Gift struct {
	Meeting string
	Value   []byte
}

// Meet returns the value of each rank once every rank has called it for this meeting, or an error after a rank failed.
func (p *peer) Meet(g Gift, all *[][]byte) error {
	p.mu.Lock()
	m := p.meetings[g.Meeting]
	if m == nil {
		m = &meeting{map[int][]byte{}, make(chan struct{})}
		p.meetings[g.Meeting] = m
	}
	if m.given[p.Rank] = g.Value; len(m.given) == len(p.peers) {
		if g.Meeting != end {
			delete(p.meetings, g.Meeting)
		}
		p.began = true // the first meeting
		close(m.full)
	}
	p.mu.Unlock()
	select {
	case <-m.full:
		for rank := range p.peers {
			*all = append(*all, m.given[rank])
		}
	case <-p.failed:
	case <-p.left:
	}
	select {
	case <-p.failed: // also if the last rank to arrive is the one that failed
		return errFailed
	default:
		return nil
	}
}

// errFailed ends a meeting that can never be complete. Watch says why.
var errFailed = errors.New("a rank failed")

// News is a message of a rank to all ranks.
type News struct {
	Failure *Failure
	Stop    bool // all ranks are to stop
}

// Tell passes news to all ranks. Only the first failure counts.
func (p *peer) Tell(n News, _ *News) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n.Failure != nil {
		p.fail(n.Failure)
	}
	if n.Stop && !p.asked {
		p.asked = true
		close(p.stopping)
	}
	return nil
}

// Watch returns when there is news. It reports a stop only to callers that do not know of it. Without news it returns
// after a while, so that both ends hear from each other.
func (p *peer) Watch(stops bool, n *News) error {
	stopping := p.stopping
	if stops {
		stopping = nil
	}
	select {
	case <-p.failed:
		n.Failure = p.failure
	case <-stopping:
		n.Stop = true
	case <-time.After(p.dead / 10):
	case <-p.left:
	}
	return nil
}

// gone notes that a connection ended. A rank that had not finished is lost; one that had not begun may connect again.
func (p *peer) gone(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.left)
	if !p.began {
		p.peers[p.Rank] = nil
		if m := p.meetings[begin]; m != nil {
			delete(m.given, p.Rank)
		}
		return
	}
	if m := p.meetings[end]; m != nil {
		if _, done := m.given[p.Rank]; done {
			return
		}
	}
	f, after := &Failure{Rank: p.Rank, Lost: true}, hearsay
	f.Text = fmt.Sprintf("%v is gone: it was killed (for memory?) or crashed", p.hello)
	if errors.Is(err, errDead) {
		f.Text, after = fmt.Sprintf("%v has not answered for %v: it hangs, or its machine is gone", p.hello, p.dead), 0
	}
	time.AfterFunc(after, func() { p.Tell(News{Failure: f}, nil) })
}

// fail ends the training of all ranks.
func (s *store) fail(f *Failure) {
	if s.failure == nil {
		s.failure = f
		close(s.failed)
	}
}

// wait reports missing ranks until all have connected. After the limit it fails those that have.
func (s *store) wait(came <-chan struct{}, limit time.Duration, notice func(string)) {
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	remind := time.NewTicker(reminder)
	defer remind.Stop()
	for began := time.Now(); ; {
		select {
		case <-came:
			return
		case <-remind.C:
			notice(fmt.Sprintf("waiting for %s for %v", s.missing(), time.Since(began).Round(time.Second)))
		case <-over:
			f := &Failure{Text: fmt.Sprintf("%s did not come within %v; start all of them, see their output, or wait "+
				"longer with --wait", s.missing(), limit)}
			s.mu.Lock()
			s.fail(f)
			s.mu.Unlock()
		}
	}
}

// missing names the ranks that have not connected.
func (s *store) missing() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for rank, p := range s.peers {
		if p == nil {
			names = append(names, fmt.Sprint(rank))
		}
	}
	word := map[bool]string{true: "ranks", false: "rank"}[len(names) > 1]
	if len(names) > 8 {
		names = append(names[:8], fmt.Sprintf("and %d more", len(names)-8))
	}
	return fmt.Sprintf("%s %s of %d", word, strings.Join(names, ", "), len(s.peers))
}

// drain waits, at most the given time, until all ranks have closed their connections. After a failure it also waits for
// late ranks, so that they learn of it.
func (s *store) drain(most time.Duration) {
	empty := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open == 0 && s.came >= len(s.peers)
	}
	for last := time.Now().Add(most); !empty() && time.Now().Before(last); {
		time.Sleep(2 * time.Millisecond)
	}
}

// errDead is the error of a connection whose other end has gone silent.
var errDead = errors.New("sends nothing")

// longest is the maximum size of a first line, which holds all settings of a rank.
const longest = 1 << 20

// link is one end of a connection. Each end sends something every dead/10.
type link struct {
	net.Conn
	dead time.Duration
	lost func(error) // called with the first error of a read; may be nil
}

// line reads the first line. The other end sends nothing more until it has an answer.
func (l *link) line() (string, error) {
	in := bufio.NewScanner(l)
	in.Buffer(nil, longest)
	if !in.Scan() {
		return "", cmp.Or(in.Err(), io.EOF)
	}
	return in.Text(), nil
}

// Read implements io.Reader. It fails after the time dead without data. A process that was stopped (Ctrl-Z) and
// continues finds its own deadline over: the last fifth of the time gives the other end a chance to be heard.
func (l *link) Read(b []byte) (n int, err error) {
	for _, wait := range []time.Duration{l.dead * 4 / 5, l.dead / 5} {
		l.SetReadDeadline(time.Now().Add(wait))
		if n, err = l.Conn.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w for %v", errDead, l.dead)
	}
	if err != nil && l.lost != nil {
		l.lost(err)
		l.lost = nil
	}
	return n, err
}

// Write implements io.Writer. After a partial write the connection is closed, because the rest of the message is
// missing.
func (l *link) Write(b []byte) (n int, err error) {
	l.SetWriteDeadline(time.Now().Add(l.dead / 5))
	if n, err = l.Conn.Write(b); err != nil {
		l.Close()
	}
	return n, err
}
