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

// Keys of a store that the others build on.
const (
	failed = "failure" // a Failure, in JSON
	begin  = "begin"   // all have come and agree
	end    = "end"     // the work of all is done
	stop   = "stop"    // a rank asks all to stop
)

// store is where ranks tell each other things, in the process of rank 0: names with values, which whoever asks waits
// for. The first value of a name stays.
type store struct {
	zero hello // of rank 0
	dead time.Duration

	mu     sync.Mutex
	values map[string]string
	set    chan struct{} // closed, and another one, when a value is set
	peers  []*peer       // by rank; nil has not come
	came   int           // how many ranks have come at least once
	open   int           // connections
}

// peer answers the calls of one rank (net/rpc).
type peer struct {
	*store
	hello
	left chan struct{} // closed when the connection ended
}

func newStore(zero hello, dead time.Duration) *store {
	return &store{zero: zero, dead: dead, values: map[string]string{}, set: make(chan struct{}),
		peers: make([]*peer, zero.Ranks)}
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
		s.put((&Failure{Rank: p.Rank, Text: fmt.Sprintf("%v and %v are to do different things: %s; start all ranks "+
			"with the same program, configuration and data", p.hello, s.zero, strings.Join(list, "; "))}).entry())
	}
	s.peers[p.Rank] = p
	s.came++
	s.open++
	return ""
}

// contradictions names at most three facts of a rank that are not those of rank 0.
func contradictions(zero, other []Fact) (list []string) {
	values := map[string]string{}
	for _, f := range other {
		values[f.Key] = f.Value
	}
	for _, f := range zero {
		if v, ok := values[f.Key]; ok && v != f.Value && len(list) < 3 {
			list = append(list, fmt.Sprintf("%s is %s, that of rank 0 is %s", f.Key, v, f.Value))
		}
	}
	return list
}

// Entry is a value of a store, and its name.
type Entry struct{ Key, Value string }

// Set sets a value, unless there is one. A rank sets nothing from time to time, so that both ends hear of each other.
func (p *peer) Set(e Entry, _ *string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.put(e)
	return nil
}

func (s *store) put(e Entry) {
	if _, ok := s.values[e.Key]; !ok && e.Key != "" {
		s.values[e.Key] = e.Value
		close(s.set)
		s.set = make(chan struct{})
	}
}

// Get waits for a value.
func (p *peer) Get(key string, value *string) error {
	for {
		p.mu.Lock()
		v, ok := p.values[key]
		set := p.set
		p.mu.Unlock()
		if *value = v; ok {
			return nil
		}
		select {
		case <-set:
		case <-p.left:
			return errDead
		}
	}
}

// entry is the failure in a store.
func (f *Failure) entry() Entry {
	text, _ := json.Marshal(f) // numbers and texts
	return Entry{failed, string(text)}
}

// fail ends the training of all ranks.
func (s *store) fail(f Failure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(f.entry())
}

// gone notes that a connection ended: a rank that was not done is lost. One that had not begun may come again.
func (p *peer) gone(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.left)
	_, began := p.values[begin]
	_, done := p.values[rankKey(end, p.Rank)]
	switch f := (Failure{Rank: p.Rank, Lost: true}); {
	case done:
	case !began:
		p.peers[p.Rank] = nil
		delete(p.values, rankKey(begin, p.Rank))
	case errors.Is(err, errDead):
		f.Text = fmt.Sprintf("%v has not answered for %v: it hangs, or its machine is gone", p.hello, p.dead)
		go p.fail(f)
	default:
		f.Text = fmt.Sprintf("%v is gone: it was killed (for memory?) or crashed", p.hello)
		time.AfterFunc(hearsay, func() { p.fail(f) })
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
			s.fail(Failure{Text: fmt.Sprintf("%s did not come within %v; start all of them, see their output, or wait "+
				"longer with --wait", s.missing(), limit)})
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

// longest is the size of a first line at most; that of a rank has all settings.
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
