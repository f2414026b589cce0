package launch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vsetrain/internal/system/mpi"
)

// visitor is a rank at a hub whose messages are read at once.
type visitor struct {
	*link
	got chan message // closed when the connection is
}

// come connects a rank to a hub, without beats.
func come(h *hub, rank int) visitor {
	ours, theirs := net.Pipe()
	go h.serve(theirs)
	v := visitor{newLink(ours, bufio.NewReader(ours), time.Hour), make(chan message, 10)}
	go func() {
		defer close(v.got)
		for m, err := v.receive(); err == nil; m, err = v.receive() {
			v.got <- m
		}
	}()
	v.send(message{Kind: hello, Rank: rank, Ranks: len(h.peers), PID: 100 + rank, Host: "h", Machine: "m"})
	return v
}

// expect reads the next message of the hub.
func (v visitor) expect(t *testing.T, kind, text string) {
	t.Helper()
	if m := <-v.got; m.Kind != kind || !strings.Contains(m.Text, text) {
		t.Errorf("%+v, want %s %q", m, kind, text)
	}
}

// live sends beats for a time.
func (v visitor) live(beats int) {
	for range beats {
		time.Sleep(time.Second)
		v.send(message{Kind: beat})
	}
}

// Ranks live as long as they send beats, however long they take; one that sends none is dead after ten seconds.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(2, "", deadAfter)
		a, b := come(h, 0), come(h, 1)
		a.expect(t, welcome, "")
		b.expect(t, welcome, "")
		go a.live(3620)
		go b.live(3600)
		began := time.Now()
		a.expect(t, failed, "rank 1 (process 101 on h) has not answered for 10s")
		if d := time.Since(began).Round(time.Second); d != 3610*time.Second {
			t.Errorf("dead after %v", d)
		}
		a.close()
		b.close()
		h.drain(time.Second)
		time.Sleep(time.Minute)
	})
}

// A hub that hangs is dead too.
func TestDeadHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		l := newLink(ours, bufio.NewReader(ours), deadAfter)
		began := time.Now()
		if _, err := l.receive(); !errors.Is(err, errDead) || time.Since(began) != deadAfter {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		l.close()
		theirs.Close()
	})
}

// Who does not come in time fails those who have, and the hub goes on to answer.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(2, "", deadAfter)
		first := come(h, 0)
		h.wait(time.Second, func(string) {})
		first.expect(t, failed, "rank 1 of 2 did not come within 1s")
		late := come(h, 1)
		late.expect(t, failed, "rank 1 of 2 did not come within 1s")
		first.close()
		late.close()
		h.drain(time.Second)
	})
}

// A rank that is gone before all have come may come again, and after that it is lost; all leave together.
func TestComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHub(3, "", deadAfter)
		var notices []string
		go h.wait(0, func(text string) { notices = append(notices, text) })
		first := come(h, 1)
		first.live(35)
		first.close()
		time.Sleep(30 * time.Second)
		want := []string{"waiting for ranks 0, 2 of 3 for 30s", "waiting for ranks 0, 1, 2 of 3 for 1m0s"}
		if fmt.Sprint(notices) != fmt.Sprint(want) {
			t.Errorf("%q", notices)
		}
		var all []visitor
		for rank := range 3 {
			all = append(all, come(h, rank))
			if rank == 1 {
				synctest.Wait()
				twice := come(h, 1)
				twice.expect(t, refused, "rank 1 (process 101 on h) has come already")
				twice.close()
			}
		}
		for rank, v := range all {
			v.expect(t, welcome, "")
			go v.live(60)
			if rank != 2 {
				v.send(message{Kind: done})
			}
		}
		all[1].close() // it may: it is done
		time.Sleep(time.Minute)
		all[2].send(message{Kind: stop})
		all[0].expect(t, stop, "")
		all[2].expect(t, stop, "")
		all[2].send(message{Kind: done})
		all[0].expect(t, end, "")
		for _, v := range all {
			v.close()
		}
		h.drain(time.Second)
		time.Sleep(time.Minute)
	})
}

// A stranger is not answered, and does no harm.
func TestStrangers(t *testing.T) {
	h := newHub(1, "", time.Second)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "{}\n", "{\"Kind\":\"done\"}\n", "cmd=initack pmiid=0\n",
		"cmd=put key=a value=b\n", strings.Repeat("{", longest+5), "\n"} {
		ours, theirs := net.Pipe()
		go func() {
			ours.Write([]byte(text))
		}()
		h.serve(theirs)
		ours.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := ours.Read(make([]byte, 9)); n > 0 || err == nil {
			t.Errorf("%.20q is answered", text)
		}
		ours.Close()
	}
	if len(h.pmi.values) > 0 || h.peers[0] != nil {
		t.Errorf("a stranger changed %v, %v", h.pmi.values, h.peers)
	}
}

// Where a call of MPI fails because another rank is gone, that rank is the cause, and not the one that called.
func TestFailureBehindACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lost := range []bool{true, false} {
			ours, theirs := net.Pipe()
			go io.Copy(io.Discard, theirs)
			m := &Member{o: Options{Dead: time.Second}, link: newLink(ours, bufio.NewReader(ours), time.Hour),
				grace: grace, failed: make(chan struct{}), leaving: make(chan struct{})}
			other := &Failure{Rank: 2, Text: "its process ended", Lost: true}
			if lost {
				time.AfterFunc(500*time.Millisecond, func() { m.lose(other) })
			}
			var want error = &mpi.CallError{Function: "MPI_Bcast", Text: "Endpoint timeout"}
			call := fmt.Errorf("step 3: %w", want)
			if lost {
				want = other
			}
			if err := m.Fail(call); !errors.Is(err, want) {
				t.Errorf("another rank lost: %t: the cause is %v", lost, err)
			}
			theirs.Close()
		}
	})
}

// A wait ends where all ranks are in the same one: messages that come twice, late or ahead end none for others.
func TestNumberedWaits(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		h := newHub(3, "", time.Hour)
		var all []visitor
		for rank := range 3 {
			all = append(all, come(h, rank))
		}
		for _, v := range all {
			v.expect(t, welcome, "")
		}
		in, passed := [3]int{}, 0
		for passed < 5 {
			rank := draw.IntN(3)
			if in[rank] == passed { // it waits for the next time; else it says again that it does
				in[rank]++
			}
			all[rank].send(message{Kind: wait, Rank: rank, Number: in[rank]})
			if slices.Min(in[:]) > passed {
				passed++
				for _, v := range all {
					if m := <-v.got; m.Kind != wait || m.Number != passed {
						t.Fatalf("%+v, want wait %d", m, passed)
					}
				}
			}
		}
		for _, v := range all {
			select {
			case m := <-v.got:
				t.Fatalf("%+v after the last wait", m)
			default:
			}
			v.close()
		}
	}
}

// A message that was written in part is the last of its connection: the next one is not read as its rest.
func TestMessageWrittenInPart(t *testing.T) {
	for part := range 20 {
		ours, theirs := net.Pipe()
		l := newLink(ours, bufio.NewReader(ours), 10*time.Millisecond)
		got := make(chan string)
		go func() {
			b := make([]byte, part)
			io.ReadFull(theirs, b)
			time.Sleep(20 * time.Millisecond)
			rest, _ := io.ReadAll(theirs)
			got <- string(b) + string(rest)
		}()
		l.send(message{Kind: failed, Rank: 1, Text: "the first message"})
		time.Sleep(40 * time.Millisecond)
		l.send(message{Kind: failed, Rank: 2, Text: "the second"})
		l.close()
		for line := range strings.Lines(<-got) {
			if strings.HasSuffix(line, "\n") && !json.Valid([]byte(line)) {
				t.Errorf("after %d bytes: %q", part, line)
			}
		}
	}
}
