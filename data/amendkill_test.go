package data

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"vsetrain/lab/try"
)

var amendKills = flag.Int("amend-kills", 4, "how often TestAmendIsWholeAfterKills kills the process")

// amendDir names the folder of the process that TestAmendIsWholeAfterKills kills.
const amendDir = "VSETRAIN_TEST_AMEND"

// step is the n-th change: three images come, and of those that came before one goes.
func step(n int) Change {
	c := Change{Added: added(fmt.Sprint(n, "a"), fmt.Sprint(n, "b"), fmt.Sprint(n, "c"))}
	if n > 0 {
		c.Removed = []string{fmt.Sprint(n-1, "b")}
	}
	return c
}

// after are the images when n changes were made.
func after(n int) string {
	all := "im0=0 im1=1"
	for i := range n {
		all += fmt.Sprintf(" %da=%d", i, i)
		if i == n-1 {
			all += fmt.Sprintf(" %db=%d", i, i)
		}
		all += fmt.Sprintf(" %dc=%d", i, i)
	}
	return all
}

// A process that changes a gallery all the time is killed at random moments. What it told to be done is there, the next
// change is there as a whole or not at all, and it goes on from there.
func TestAmendIsWholeAfterKills(t *testing.T) {
	if dir := os.Getenv(amendDir); dir != "" {
		s := try.Get(Open(dir, "test", OpenOptions{Partial: true}))(t)
		n := (s.NumImages() - 2) / 2 // changes that were made: the first brings three images, each other one two
		s.Close()
		for ; ; n++ {
			v := float32(n)
			try.Do(t, Amend(t.Context(), dir, "test", step(n), features(false, v, v, v)))
			fmt.Printf("done %d\n", n+1)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := gallery(t, 2, false)
	least := 0
	for kill := range *amendKills {
		c := exec.Command(os.Args[0], "-test.run=^TestAmendIsWholeAfterKills$")
		c.Env = append(os.Environ(), amendDir+"="+w.dir)
		out := try.Get(c.StdoutPipe())(t)
		c.Stderr = c.Stdout
		try.Do(t, c.Start())
		done, told := 0, ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if told == "" { // it works
				time.AfterFunc(time.Duration(r.Int64N(int64(30*time.Millisecond))), func() { c.Process.Kill() })
			}
			told += lines.Text() + "\n"
			fmt.Sscanf(lines.Text(), "done %d", &done)
		}
		c.Wait()
		if done <= least && (kill > 0 || done == 0) {
			t.Fatalf("kill %d: it did not go on after %d: %s", kill, least, told)
		}
		s := w.open(t, "test", OpenOptions{Partial: true})
		got := held(t, s)
		if got != after(done) && got != after(done+1) {
			t.Fatalf("kill %d: after %d changes\n%s\nwant\n%s", kill, done, got, after(done))
		}
		least = done
		if r, err := Check(w.dir, CheckOptions{}); err != nil || !r.OK() {
			t.Errorf("kill %d: %+v, %v", kill, r, err)
		}
	}
}
