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
	"sync"
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

// meet goes to a meeting.
func (v visitor) meet(name string) (all [][]byte, err error) {
	err = v.Call("Store.Meet", Gift{name, []byte("a gift")}, &all)
	return all, err
}

// begin has ranks meet before they train.
func begins(t *testing.T, ranks ...visitor) {
	t.Helper()
	for _, v := range ranks[1:] {
		go v.meet(begin)
	}
	if all, err := ranks[0].meet(begin); len(all) != len(ranks) || err != nil {
		t.Errorf("%d of %d ranks begin: %v", len(all), len(ranks), err)
	}
}

// expect waits for a failure.
func (v visitor) expect(t *testing.T, text string) {
	t.Helper()
	var n News
	for err := error(nil); n.Failure == nil && err == nil; {
		err = v.Call("Store.Watch", true, &n)
	}
	if n.Failure == nil || !strings.Contains(n.Failure.Text, text) {
		t.Errorf("%+v, want %q", n.Failure, text)
	}
}

// live gives signs of life for some seconds.
func (v visitor) live(seconds int) {
	for range seconds {
		time.Sleep(time.Second)
		v.Call("Store.Tell", News{}, new(News))
	}
}

// Ranks that are to do different things do not begin, whichever comes last.
func TestNobodyBeginsAfterAFailure(t *testing.T) {
	s := testStore(2)
	s.zero.Facts = []Fact{{"a", "1"}}
	a, _ := come(s, 0)
	go a.meet(begin)
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	l := &link{Conn: ours, dead: time.Hour}
	json.NewEncoder(l).Encode(hello{Rank: 1, Ranks: 2, Facts: []Fact{{"a", "2"}}})
	if line, err := l.line(); line != welcome || err != nil {
		t.Fatalf("rank 1 hears %q, %v", line, err)
	}
	b := visitor{rpc.NewClient(l)}
	if all, err := b.meet(begin); err == nil {
		t.Errorf("%d ranks begin", len(all))
	}
	b.expect(t, "a is 2, but 1 on rank 0")
}

// Ranks live as long as they give signs of life, however long they take; one that gives none is dead after ten seconds.
// So is rank 0.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testStore(2)
		a, _ := come(s, 0)
		b, _ := come(s, 1)
		begins(t, a, b)
		go a.live(3620)
		go b.live(3600)
		started := time.Now()
		a.expect(t, "rank 1 (process 101 on h) has not answered for 10s: it hangs")
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
		synctest.Wait()
		want := []string{"waiting for ranks 0, 2 of 3 for 30s", "waiting for ranks 0, 1, 2 of 3 for 1m0s"}
		if fmt.Sprint(notices) != fmt.Sprint(want) {
			t.Errorf("%q", notices)
		}
		zero, _ := come(s, 0)
		one, _ := come(s, 1)
		if twice, why := come(s, 1); why != "rank 1 (process 101 on h) has come already; start each rank once" {
			t.Errorf("a rank comes twice: %q", why)
			twice.Close()
		}
		go zero.live(200)
		go one.live(200)
		zero.expect(t, "rank 2 of 3 did not come within 2m0s")
		late, _ := come(s, 2)
		late.expect(t, "rank 2 of 3 did not come within 2m0s")
		close(came)
		for _, v := range []visitor{zero, one, late} {
			v.Close()
		}

		s = testStore(2)
		zero, _ = come(s, 0)
		one, _ = come(s, 1)
		begins(t, zero, one)
		go zero.live(30)
		go one.meet(end)
		time.Sleep(time.Second)
		one.Close() // it may: it is done
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s.failure != nil {
			t.Error("a rank that was done is missed")
		}
		zero.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		if s.failure == nil || !strings.Contains(s.failure.Text, "rank 0 (process 100 on h) is gone: it was killed") {
			t.Errorf("rank 0 is gone: %v", s.failure)
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
	if len(s.meetings) > 0 || s.peers[0] != nil {
		t.Errorf("a stranger changed %v, %v", s.meetings, s.peers)
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
				time.AfterFunc(500*time.Millisecond, func() {
					zero.Call("Store.Tell", News{Failure: other}, new(News))
				})
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

// A meeting is full when all ranks have come to it, and all have the same values; the next one begins anew, however
// late the answers are. A rank that leaves before the first one is not there.
func TestMeetings(t *testing.T) {
	s := testStore(3)
	zero, _ := come(s, 0)
	one, _ := come(s, 1)
	left, _ := come(s, 2)
	go left.meet(begin)
	for range 1000 { // until it has come
		if s.mu.Lock(); s.meetings[begin] != nil {
			s.mu.Unlock()
			break
		}
		s.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	left.Close()
	for there := true; there; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		there = s.peers[2] != nil
		s.mu.Unlock()
	}
	early := make(chan error, 2)
	for _, v := range []visitor{zero, one} {
		go func() {
			_, err := v.meet(begin)
			early <- err
		}()
	}
	select {
	case err := <-early:
		t.Fatalf("two of three ranks begin: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	two, _ := come(s, 2)
	two.meet(begin)
	<-early
	<-early
	var done sync.WaitGroup
	for rank, v := range []visitor{zero, one, two} {
		defer v.Close()
		done.Go(func() {
			for round := range 200 {
				own := fmt.Sprint(round, " of ", rank)
				var all [][]byte
				err := v.Call("Store.Meet", Gift{"", []byte(own)}, &all)
				want := fmt.Sprintf("%d of 0 %[1]d of 1 %[1]d of 2", round)
				if got := string(bytes.Join(all, []byte(" "))); got != want || err != nil {
					t.Errorf("rank %d has %q (%v), want %q", rank, got, err, want)
					return
				}
			}
		})
	}
	done.Wait()
	if len(s.meetings) > 0 {
		t.Errorf("%d meetings are not over", len(s.meetings))
	}
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
