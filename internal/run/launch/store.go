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

// reminder is the time between two notices that ranks have not come.
const reminder = 30 * time.Second

// Fact is something that all ranks must agree on, such as a setting.
type Fact struct{ Key, Value string }

// Failure is why a rank must end though it can go on: a rank failed or was lost.
type Failure struct {
	Rank int
	Text string
	Lost bool // the rank was killed, hangs, or was interrupted; the run can be resumed
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// hello is the first line of a connection, in JSON: which rank it is of.
type hello struct {
	Rank, Ranks, PID int
	Host, Token      string
	Facts            []Fact
}

func (h hello) String() string {
	return fmt.Sprintf("rank %d (process %d on %s)", h.Rank, h.PID, h.Host)
}

// welcome begins the answer; the reason why the rank is refused follows, or the end of the line.
const welcome = "vsetrain ranks: "

// The meetings at which ranks begin and end; there is one more, for all else.
const (
	begin = "begin" // all have come and agree
	end   = "end"   // the work of all is done
)

// store is where ranks meet and hear of each other, in the process of rank 0.
type store struct {
	zero hello // of rank 0
	dead time.Duration

	mu       sync.Mutex
	peers    []*peer // by rank; nil has not come
	came     int     // how often a rank has come
	open     int     // connections
	began    bool
	meetings map[string]*meeting // that are not full, and end
	failure  *Failure
	asked    bool // to stop

	failed, stopping chan struct{} // closed when a rank failed, and when one asked all to stop
}

// meeting is what ranks have given to each other, by rank.
type meeting struct {
	given map[int][]byte
	full  chan struct{} // closed when all have
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

// accept serves everybody who connects until the listener is closed.
func (s *store) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go s.serve(c)
	}
}

// serve serves one connection. A stranger has no answer, and who is refused makes no calls.
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

// admit takes a rank in, or says why not.
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

// contradictions names at most three facts of a rank that are not the same as the facts of rank 0.
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

// Gift is what a rank gives to the others at a meeting.
type Gift struct {
	Meeting string
	Value   []byte
}

// Meet answers with what each rank gave when all have come to a meeting, or with an error when a rank failed.
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
	case <-p.failed: // also where the last to come is the one that failed
		return errFailed
	default:
		return nil
	}
}

// errFailed ends a meeting that has no use any more. Watch says why.
var errFailed = errors.New("a rank failed")

// News is what a rank tells all.
type News struct {
	Failure *Failure
	Stop    bool // all are to stop
}

// Tell tells all ranks. The first failure counts.
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

// Watch answers when there are news, of a stop unless the caller knows of it; and after a while without any, so that
// both ends hear of each other.
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

// gone notes that a connection ended: a rank that was not done is lost. One that had not begun may come again.
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

// wait tells who has not come, until all have, and fails those who have where the user's limit is over.
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

// missing names the ranks that have not come.
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

// drain waits until the ranks have closed their connections, and those who had not come when the others failed have
// heard of it, for a time at most.
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

// errDead is the error of an end that sends nothing any more.
var errDead = errors.New("sends nothing")

// longest is the size of a first line at most; the first line of a rank has all settings.
const longest = 1 << 20

// link is one end of a connection. Its ends hear from each other each tenth of the time after which one counts as dead.
type link struct {
	net.Conn
	dead time.Duration
	lost func(error) // hears why nothing can be read any more; may be nil
}

// line reads the first line. Nothing comes after it before it is answered.
func (l *link) line() (string, error) {
	in := bufio.NewScanner(l)
	in.Buffer(nil, longest)
	if !in.Scan() {
		return "", cmp.Or(in.Err(), io.EOF)
	}
	return in.Text(), nil
}

// Read implements io.Reader. It waits until nothing came for the time of death. A process that was stopped and goes on,
// as after Ctrl-Z, finds its own time over: it gives the other end a fifth of it to be heard.
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

// Write implements io.Writer. What is written in part is the last: what follows would be read as its rest.
func (l *link) Write(b []byte) (n int, err error) {
	l.SetWriteDeadline(time.Now().Add(l.dead / 5))
	if n, err = l.Conn.Write(b); err != nil {
		l.Close()
	}
	return n, err
}
