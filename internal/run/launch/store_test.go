package launch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"vsetrain/internal/system/mpi"
)

// visitor is a rank at a store that gives no signs of life.
type visitor struct{ *rpc.Client }

func testStore(ranks int) *store { return newStore(hello{Ranks: ranks}, deadAfter) }

// come connects a rank to a store, or returns why it may not join.
func come(s *store, rank int) (v visitor, why string) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	l := &link{Conn: ours, dead: time.Hour}
	json.NewEncoder(l).Encode(hello{Rank: rank, Ranks: len(s.peers), PID: 100 + rank, Host: "h"})
	line, _ := l.line()
	return visitor{rpc.NewClient(l)}, strings.TrimPrefix(line, welcome)
}

func (v visitor) set(key, value string) { v.Call("Store.Set", Entry{key, value}, new(string)) }

// expect waits for a value that contains a text.
func (v visitor) expect(t *testing.T, key, text string) {
	t.Helper()
	var got string
	if err := v.Call("Store.Get", key, &got); err != nil || !strings.Contains(got, text) {
		t.Errorf("%s is %q (%v), want %q", key, got, err, text)
	}
}

// live gives signs of life for some seconds.
func (v visitor) live(seconds int) {
	for range seconds {
		time.Sleep(time.Second)
		v.set("", "")
	}
}

// Ranks live as long as they give signs of life, however long they take; one that gives none is dead after ten seconds.
// So is rank 0.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(2)
		a, _ := come(s, 0)
		b, _ := come(s, 1)
		a.set(begin, "")
		go a.live(3620)
		go b.live(3600)
		started := time.Now()
		a.expect(t, failed, "rank 1 (process 101 on h) has not answered for 10s: it hangs")
		if d := time.Since(started).Round(time.Second); d != 3610*time.Second {
			t.Errorf("dead after %v", d)
		}
		a.Close()
		b.Close()
		s.drain(time.Second)

		ours, theirs := net.Pipe()
		started = time.Now()
		if _, err := (&link{Conn: ours, dead: deadAfter}).line(); !errors.Is(err, errDead) ||
			time.Since(started) != deadAfter {
			t.Errorf("%v after %v", err, time.Since(started))
		}
		theirs.Close()
		time.Sleep(time.Minute)
	})
}

// A rank that is gone before all have come may come again, and after that it is lost, unless it was done. Who does not
// come is named twice a minute, and in time fails those who have come; who comes late hears of it.
func TestComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(3)
		var notices []string
		came := make(chan struct{})
		go s.wait(came, 2*time.Minute, func(text string) { notices = append(notices, text) })
		first, _ := come(s, 1)
		first.live(35)
		first.Close()
		time.Sleep(30 * time.Second)
		want := []string{"waiting for ranks 0, 2 of 3 for 30s", "waiting for ranks 0, 1, 2 of 3 for 1m0s"}
		if fmt.Sprint(notices) != fmt.Sprint(want) {
			t.Errorf("%q", notices)
		}
		zero, _ := come(s, 0)
		one, why := come(s, 1)
		if twice, why := come(s, 1); why != "rank 1 (process 101 on h) has come already; start each rank once" {
			t.Errorf("a rank comes twice: %q", why)
			twice.Close()
		}
		go zero.live(200)
		go one.live(200)
		zero.expect(t, failed, "rank 2 of 3 did not come within 2m0s")
		late, _ := come(s, 2)
		late.expect(t, failed, "rank 2 of 3 did not come within 2m0s")
		close(came)
		for _, v := range []visitor{zero, one, late} {
			v.Close()
		}

		s = testStore(2)
		zero, _ = come(s, 0)
		one, why = come(s, 1)
		zero.set(begin, why)
		go zero.live(30)
		one.set(rankKey(end, 1), "")
		one.Close() // it may: it is done
		time.Sleep(20 * time.Second)
		if _, ok := s.values[failed]; ok {
			t.Error("a rank that was done is missed")
		}
		zero.Close()
		time.Sleep(time.Second)
		if !strings.Contains(s.values[failed], "rank 0 (process 100 on h) is gone: it was killed") {
			t.Errorf("rank 0 is gone: %q", s.values)
		}
		time.Sleep(5 * time.Minute)
	})
}

// A stranger is not answered, and does no harm.
func TestStrangers(t *testing.T) {
	s := newStore(hello{Ranks: 1}, time.Second)
	for _, text := range []string{"GET / HTTP/1.1\r\n\r\n", "{}\n", "{\"Kind\":\"done\"}\n", "cmd=initack pmiid=0\n",
		strings.Repeat("{", longest+5), "\n"} {
		ours, theirs := net.Pipe()
		go func() {
			ours.Write([]byte(text))
		}()
		s.serve(theirs)
		ours.SetReadDeadline(time.Now().Add(time.Second))
		if n, err := ours.Read(make([]byte, 9)); n > 0 || err == nil {
			t.Errorf("%.20q is answered", text)
		}
		ours.Close()
	}
	if len(s.values) > 0 || s.peers[0] != nil {
		t.Errorf("a stranger changed %v, %v", s.values, s.peers)
	}
}

// Where a call of MPI fails because another rank is gone, that rank is the cause, and not the one that called.
func TestFailureAfterACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lost := range []bool{true, false} {
			s := testStore(3)
			zero, _ := come(s, 0)
			m := &Member{o: Options{Dead: time.Second}, zero: zero.Client, grace: grace, failed: make(chan struct{}),
				stopped: make(chan struct{}), leaving: make(chan struct{})}
			go m.watch()
			other := &Failure{Rank: 2, Text: "its process ended", Lost: true}
			if lost {
				time.AfterFunc(500*time.Millisecond, func() { s.fail(*other) })
			}
			want := error(&mpi.CallError{Function: "MPI_Bcast", Text: "Endpoint timeout"})
			switch err := m.Fail(fmt.Errorf("step 3: %w", want)); {
			case lost && (err == nil || *err.(*Failure) != *other):
				t.Errorf("the cause is %v, not that another rank is lost", err)
			case !lost && !errors.Is(err, want):
				t.Errorf("the cause is %v", err)
			}
			time.Sleep(time.Minute)
		}
	})
}

// Of several values of one name the first one stays, and who waits for another name goes on waiting.
func TestFirstValueStays(t *testing.T) {
	s := testStore(2)
	zero, _ := come(s, 0)
	one, _ := come(s, 1)
	defer zero.Close()
	defer one.Close()
	got := make(chan string)
	go func() {
		var text string
		one.Call("Store.Get", "a", &text)
		got <- text
	}()
	for i, key := range []string{"b", "a", "a"} {
		zero.set(key, fmt.Sprint(i))
	}
	if text := <-got; text != "1" {
		t.Errorf("%q, want the first value of its name", text)
	}
	one.expect(t, "a", "1")
}

// What is written in part is the last of its connection: the next message is not read as its rest.
func TestMessageWrittenInPart(t *testing.T) {
	for part := range 20 {
		ours, theirs := net.Pipe()
		l := &link{Conn: ours, dead: 10 * time.Millisecond}
		got := make(chan []byte)
		go func() {
			b := make([]byte, part)
			io.ReadFull(theirs, b)
			time.Sleep(20 * time.Millisecond)
			rest, _ := io.ReadAll(theirs)
			got <- append(b, rest...)
		}()
		first := []byte("the first message, which is long")
		l.Write(first)
		time.Sleep(40 * time.Millisecond)
		l.Write([]byte("the second"))
		if b := <-got; !bytes.HasPrefix(first, b) {
			t.Errorf("after %d bytes: %q", part, b)
		}
		l.Close()
	}
}
