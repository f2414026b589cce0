package launch

import (
	"bufio"
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// reminder is the time between two notices that ranks have not come.
const reminder = 30 * time.Second

// hearsay is how long a lost connection waits for the process that started the rank, which knows how it ended.
const hearsay = 200 * time.Millisecond

// hub is the meeting point of the ranks, in the process of rank 0.
type hub struct {
	token string
	dead  time.Duration
	pmi   pmi

	mu       sync.Mutex
	peers    []*peer // by rank; nil has not come
	began    bool    // all have come and agree
	failure  *Failure
	left     int // how many have done their work
	passed   int // the number of the last wait in which all were
	unaware  int // how many are still to come and to be told that the ranks contradict each other
	open     sync.WaitGroup
	complete chan struct{} // closed when all have come, or one failed
}

// peer is a rank at the hub.
type peer struct {
	*link
	message // its hello

	done  bool
	waits int // the number of the wait that it is in, or was
}

func (p *peer) String() string {
	return fmt.Sprintf("rank %d (process %d on %s)", p.Rank, p.PID, p.Host)
}

func newHub(ranks int, token string, dead time.Duration) *hub {
	return &hub{token: token, dead: dead, peers: make([]*peer, ranks), complete: make(chan struct{})}
}

// accept serves everybody who connects until the listener is closed.
func (h *hub) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go h.serve(c)
	}
}

// serve serves one connection: of a rank, or of MPICH in a rank, whose lines begin with cmd=.
func (h *hub) serve(c net.Conn) {
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(h.dead))
	in := bufio.NewReader(c)
	first, err := in.Peek(1)
	if err != nil {
		return
	}
	if first[0] == 'c' {
		c.SetReadDeadline(time.Time{})
		h.pmi.serve(c, in)
		return
	}
	l := newLink(c, in, h.dead)
	defer l.close()
	m, err := l.receive()
	if err != nil || m.Kind != hello {
		return // a stranger
	}
	p := &peer{link: l, message: m}
	if no := h.admit(p); no != nil {
		l.send(*no)
		return
	}
	h.open.Add(1)
	defer h.open.Done()
	go l.beats()
	h.begin()
	for {
		if m, err = l.receive(); err != nil {
			h.gone(p, err)
			return
		}
		h.handle(p, m)
	}
}

// admit takes a rank in, or says why not.
func (h *hub) admit(p *peer) *message {
	h.mu.Lock()
	defer h.mu.Unlock()
	no := &message{Kind: refused}
	switch {
	case subtle.ConstantTimeCompare([]byte(p.Token), []byte(h.token)) != 1:
		no.Text = "its token is another one; set " + TokenVariable + " to the same text for all ranks, and choose a " +
			"MASTER_PORT that no other training uses"
	case p.Ranks != len(h.peers) || p.Rank < 0 || p.Rank >= p.Ranks:
		no.Text = fmt.Sprintf("it is rank %d of %d, but rank 0 has %d ranks; start all with the same number", p.Rank,
			p.Ranks, len(h.peers))
	case h.failure != nil:
		no = h.failure.message()
		h.unaware--
	case h.peers[p.Rank] != nil:
		no.Text = fmt.Sprintf("%v has come already; start each rank once", h.peers[p.Rank])
	default:
		h.peers[p.Rank], no = p, nil
	}
	return no
}

// begin compares the ranks that have come with rank 0, and tells all to begin when they are complete.
func (h *hub) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var nodes []string
	for _, p := range h.peers {
		if p == nil || h.peers[0] == nil || h.began {
			continue
		}
		if list := contradictions(h.peers[0].Facts, p.Facts); len(list) > 0 {
			h.fail(&Failure{Rank: p.Rank, Text: fmt.Sprintf("%v and %v are to do different things: %s; start all "+
				"ranks with the same program, configuration and data", p, h.peers[0], strings.Join(list, "; "))})
			for _, p := range h.peers {
				if p == nil {
					h.unaware++
				}
			}
			return
		}
		nodes = append(nodes, p.Machine)
	}
	if len(nodes) < len(h.peers) || h.failure != nil {
		return
	}
	h.began = true
	ids := make([]int, len(h.peers))
	for i := range ids {
		ids[i] = secret()
	}
	h.pmi.begin(ids, nodes)
	for i, p := range h.peers {
		p.send(message{Kind: welcome, PMIID: ids[i]})
	}
	close(h.complete)
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

// secret is a number that MPICH takes for the id of a process.
func secret() int {
	var b [4]byte
	rand.Read(b[:])
	return int(binary.LittleEndian.Uint32(b[:]) >> 1)
}

// handle does what a rank asks for.
func (h *hub) handle(p *peer, m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m.Kind {
	case stop:
		h.tell(message{Kind: stop, Rank: p.Rank})
	case failed:
		h.fail(&Failure{Rank: m.Rank, Text: fmt.Sprintf("rank %d: %s", m.Rank, m.Text), Lost: m.Lost})
	case share:
		h.tell(m)
	case wait:
		p.waits = m.Number
		all := slices.MinFunc(h.peers, func(a, b *peer) int { return a.waits - b.waits }).waits
		if all > h.passed {
			h.passed = all
			h.tell(message{Kind: wait, Number: all})
		}
	case done:
		p.done = true
		if h.left++; h.left == len(h.peers) {
			h.tell(message{Kind: end})
		}
	}
}

// gone notes that a connection ended: a rank that was not done is lost. One that had not begun may come again.
func (h *hub) gone(p *peer, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case p.done:
	case !h.began:
		h.peers[p.Rank] = nil
	case errors.Is(err, errDead):
		h.fail(&Failure{Rank: p.Rank, Lost: true,
			Text: fmt.Sprintf("%v has not answered for %v: it hangs, or its machine is gone", p, h.dead)})
	default:
		time.AfterFunc(hearsay, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.fail(&Failure{Rank: p.Rank, Text: fmt.Sprintf("%v is gone: it was killed (for memory?) or crashed", p),
				Lost: true})
		})
	}
}

// fail ends the training of all ranks. The first failure counts.
func (h *hub) fail(f *Failure) {
	if h.failure != nil {
		return
	}
	h.failure = f
	h.tell(*f.message())
	if !h.began {
		h.began = true
		close(h.complete)
	}
}

func (h *hub) tell(m message) {
	for _, p := range h.peers {
		if p != nil {
			p.send(m)
		}
	}
}

// missing names the ranks that have not come.
func (h *hub) missing() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var names []string
	for rank, p := range h.peers {
		if p == nil {
			names = append(names, fmt.Sprint(rank))
		}
	}
	if len(names) > 8 {
		names = append(names[:8], fmt.Sprintf("and %d more", len(names)-8))
	}
	word := "rank "
	if len(names) > 1 {
		word = "ranks "
	}
	return fmt.Sprintf("%s%s of %d", word, strings.Join(names, ", "), len(h.peers))
}

// wait waits for all ranks, and fails those who have come where the user's limit is over.
func (h *hub) wait(limit time.Duration, notice func(string)) {
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit)
	}
	remind := time.NewTicker(reminder)
	defer remind.Stop()
	for began := time.Now(); ; {
		select {
		case <-h.complete:
			return
		case <-remind.C:
			notice(fmt.Sprintf("waiting for %s for %v", h.missing(), time.Since(began).Round(time.Second)))
		case <-over:
			text := fmt.Sprintf("%s did not come within %v; start all of them, see their output, or wait longer with "+
				"--wait", h.missing(), limit)
			h.mu.Lock()
			h.fail(&Failure{Text: text})
			h.mu.Unlock()
		}
	}
}

// drain waits until the ranks have closed their connections, and those to come were told of a contradiction, for a time
// at most.
func (h *hub) drain(most time.Duration) {
	empty := make(chan struct{})
	go func() {
		h.open.Wait()
		for h.expects() {
			time.Sleep(10 * time.Millisecond)
		}
		close(empty)
	}()
	select {
	case <-empty:
	case <-time.After(most):
	}
}

func (h *hub) expects() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.unaware > 0
}
