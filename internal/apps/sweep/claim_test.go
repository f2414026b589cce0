package sweep

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vsetrain/internal/system/process"
	"vsetrain/lab/try"
)

// claimed returns a store and a trial with a folder.
func claimed(t *testing.T) (*Store, *State) {
	t.Helper()
	s := &Store{Dir: t.TempDir(), Stale: time.Minute}
	st := &State{Trial: Trial{ID: "abc"}, Dir: s.trialDir("abc")}
	try.Do(t, os.MkdirAll(st.Dir, 0o777))
	return s, st
}

// A damaged target is an error that names the file and quotes a little of it.
func TestDamagedTarget(t *testing.T) {
	s, st := claimed(t)
	for _, text := range []string{strings.Repeat("9", 16<<10), "", "-3", "0"} {
		try.Do(t, os.WriteFile(filepath.Join(st.Dir, targetName), []byte(text), 0o666))
		_, err := s.Read([]Trial{st.Trial})
		if err == nil || !strings.Contains(err.Error(), targetName+": expected a number of epochs") ||
			len(err.Error()) > 500 {
			t.Errorf("target %.20q: %.600v", text, err)
		}
	}
}

// dead is the number of a process that has ended.
func dead(t *testing.T) int {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	try.Do(t, c.Run())
	return c.Process.Pid
}

func plant(t *testing.T, st *State, c Claim, age time.Duration) {
	t.Helper()
	b, err := json.Marshal(c)
	path := filepath.Join(st.Dir, claimName)
	if err == nil {
		err = os.WriteFile(path, b, 0o666)
	}
	if at := time.Now().Add(-age); err == nil {
		err = os.Chtimes(path, at, at)
	}
	try.Do(t, err)
}

// A trial has one worker; a claim is void when its process is gone, or when it has not been renewed for long enough.
func TestClaim(t *testing.T) {
	s, st := claimed(t)
	first, err := s.claim(st, 3, "job", time.Now())
	if first == nil || err != nil {
		t.Fatal(first, err)
	}
	if second, err := s.claim(st, 3, "", time.Now()); second != nil || err != nil {
		t.Fatal("claimed twice", err)
	}
	try.Do(t, first.beat())
	try.Do(t, first.release())
	for _, c := range []struct {
		name  string
		claim Claim
		age   time.Duration
		free  bool
	}{
		{"alive on this machine", Claim{Machine: process.Machine(), PID: os.Getpid()}, 0, false},
		{"dead on this machine", Claim{Machine: process.Machine(), PID: dead(t)}, 0, process.Machine() != ""},
		{"elsewhere, beats", Claim{Machine: "other", PID: dead(t)}, 30 * time.Second, false},
		{"elsewhere, silent", Claim{Machine: "other", PID: os.Getpid()}, 2 * time.Minute, true},
		{"elsewhere, before the clock was set back", Claim{Machine: "other", PID: os.Getpid()}, -time.Hour, true},
		{"elsewhere, a clock that is a little ahead", Claim{Machine: "other", PID: dead(t)}, -30 * time.Second, false},
		{"alive here, silent", Claim{Machine: process.Machine(), PID: os.Getpid()}, 2 * time.Minute, true},
	} {
		c.claim.Token = "planted"
		plant(t, st, c.claim, c.age)
		if seen := try.Get(s.living(filepath.Join(st.Dir, claimName), &clock{dir: s.Dir}))(t); (seen == nil) != c.free {
			t.Errorf("%s: %v", c.name, seen)
		}
		if mine := try.Get(s.claim(st, 3, "", time.Now()))(t); (mine != nil) != c.free {
			t.Errorf("%s: claimed %v", c.name, mine)
		}
	}
	if entries, err := os.ReadDir(st.Dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Of many that find the claim of a dead process at the same time one takes it over, again and again.
func TestTakeoverRace(t *testing.T) {
	s, st := claimed(t)
	for round := range 20 {
		plant(t, st, Claim{Token: "planted", Machine: "other"}, time.Hour)
		var won atomic.Int32
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				c, err := s.claim(st, 1, "", time.Now())
				if err != nil {
					t.Error(err)
				}
				if c != nil {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if n := won.Load(); n != 1 {
			t.Fatalf("round %d: %d have the trial", round, n)
		}
	}
}

// A worker whose claim was taken over notices and leaves the claim of the other alone.
func TestLostClaim(t *testing.T) {
	s, st := claimed(t)
	c, err := s.claim(st, 1, "", time.Now())
	if c == nil || err != nil {
		t.Fatal(err)
	}
	plant(t, st, Claim{Token: "other"}, 0)
	if err := c.beat(); !errors.Is(err, errLost) {
		t.Errorf("beats on: %v", err)
	}
	try.Do(t, c.release())
	if other, err := readClaim(c.path); err != nil || other.Token != "other" {
		t.Errorf("the claim of the other is gone: %v, %v", other, err)
	}
}
