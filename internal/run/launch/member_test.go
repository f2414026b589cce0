//go:build linux && (amd64 || arm64) && !nodl

package launch

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vsetrain/internal/system/mpi"
	"vsetrain/internal/system/process"
	"vsetrain/lab/try"
)

// testRank is set in processes of these tests that are ranks: words NAME=value that rank reads.
const testRank = "LAUNCH_TEST"

func TestMain(m *testing.M) {
	if words, ok := os.LookupEnv(testRank); ok {
		os.Exit(rank(env(words)))
	}
	os.Exit(m.Run())
}

// rank is a training that adds numbers: procs= starts ranks, steps= is how many there are, facts=RANK:KEY:VALUE makes a
// rank differ, fail=RANK:STEP makes one fail, dead= and wait= are limits. It writes what happens to the file of its
// rank in the folder dir=.
func rank(option func(string) string) int {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(option(name)); err == nil {
			return n
		}
		return otherwise
	}
	place, err := Environment(os.Getenv)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	procs := number("procs", 1)
	if procs > 1 && !place.Child {
		place = place.Times(procs)
	}
	log, err := os.OpenFile(filepath.Join(option("dir"), fmt.Sprint(place.Rank)),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	say := func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }
	facts := []Fact{{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}}
	for differs := range strings.SplitSeq(option("facts"), ",") {
		if part := strings.Split(differs, ":"); len(part) == 3 && part[0] == fmt.Sprint(place.Rank) {
			facts[part[1][0]-'a'].Value = part[2]
		}
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	say("process %d", os.Getpid())
	m, err := Join(ctx, Options{Place: place, Procs: procs, Command: os.Args, Env: os.Environ(),
		MPI: mpi.Search("/", os.Getenv), Facts: facts, Wait: time.Duration(number("wait", 60000)) * time.Millisecond,
		Dead: time.Duration(number("dead", 10000)) * time.Millisecond, Notice: func(string) {},
		Exit: func(f *Failure) {
			say("forced: %v", f)
			os.Exit(3)
		}})
	if err != nil {
		say("refused: %v", err)
		return 2
	}
	say("joined %d of %d", place.Rank, place.Ranks)
	ctx, cancel = m.Context(ctx)
	defer cancel()
	stopping := make([]float32, 1)
	for step := range number("steps", 1) {
		if option("fail") == fmt.Sprintf("%d:%d", place.Rank, step) {
			m.Fail(fmt.Errorf("no step %d", step))
			say("failed")
			return 4
		}
		stopping[0] = 0
		if ctx.Err() != nil {
			stopping[0] = 1
		}
		if err := m.World.AllReduce(stopping); err != nil {
			m.Fail(err)
			return 1
		}
		if step == 0 {
			say("began")
		}
		if stopping[0] > 0 {
			say("stopped at step %d", step)
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if err := m.Leave(); err != nil {
		say("left: %v", err)
		return 5
	}
	say("done")
	return 0
}

// job is some processes that are ranks.
type job struct {
	t   *testing.T
	dir string

	mu    sync.Mutex
	codes map[*exec.Cmd]int
	ended sync.WaitGroup
	out   bytes.Buffer
	first time.Time // when the first process ended
	last  time.Time
}

func newJob(t *testing.T) *job {
	t.Helper()
	for _, path := range mpi.Search("/", os.Getenv).Paths() {
		if kind, err := mpi.KindOf(path); err == nil && kind != mpi.OpenMPI {
			j := &job{t: t, dir: t.TempDir(), codes: map[*exec.Cmd]int{}}
			t.Cleanup(func() {
				for c := range j.codes {
					c.Process.Kill()
				}
				j.ended.Wait()
			})
			return j
		}
	}
	t.Skip("MPICH is not here; scripts/install-test-tools.sh installs it")
	return nil
}

// start starts a process with variables of the environment and options of rank.
func (j *job) start(options string, variables ...string) *exec.Cmd {
	j.t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(append(os.Environ(), testRank+"=dir="+j.dir+" "+options), variables...)
	c.Stdout, c.Stderr = &j.out, &j.out
	try.Do(j.t, c.Start())
	j.mu.Lock()
	j.codes[c] = -2
	j.mu.Unlock()
	j.ended.Add(1)
	go func() {
		defer j.ended.Done()
		c.Wait()
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.last = time.Now(); j.first.IsZero() {
			j.first = j.last
		}
		j.codes[c] = c.ProcessState.ExitCode()
	}()
	return c
}

// ranks starts ranks with the variables of torchrun.
func (j *job) ranks(n int, options string, variables ...string) (all []*exec.Cmd) {
	port := freePort(j.t)
	for r := range n {
		all = append(all, j.start(options, append([]string{fmt.Sprintf("RANK=%d", r), fmt.Sprintf("WORLD_SIZE=%d", n),
			"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port}, variables...)...))
	}
	return all
}

func freePort(t *testing.T) string {
	l := try.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// says is what a rank wrote so far.
func (j *job) says(rank int) string {
	b, _ := os.ReadFile(filepath.Join(j.dir, fmt.Sprint(rank)))
	return string(b)
}

// await waits until a rank wrote a text.
func (j *job) await(rank int, text string) {
	j.t.Helper()
	for range 2000 {
		if strings.Contains(j.says(rank), text) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	j.t.Fatalf("rank %d never wrote %q but %q\n%s", rank, text, j.says(rank), j.out.String())
}

// pid is the process of a rank.
func (j *job) pid(rank int) (pid int) {
	j.await(rank, "\n")
	fmt.Sscanf(j.says(rank), "process %d", &pid)
	return pid
}

func (j *job) signal(rank int, s syscall.Signal) {
	j.t.Helper()
	try.Do(j.t, syscall.Kill(j.pid(rank), s))
}

// wants waits for all processes and checks the text that ranks wrote.
func (j *job) wants(texts ...string) {
	j.t.Helper()
	j.ended.Wait()
	for rank, text := range texts {
		if got := j.says(rank); !strings.Contains(got, text) {
			j.t.Errorf("rank %d wrote %q, want %q\n%s", rank, got, text, j.out.String())
		}
	}
}

// A process starts ranks of its own machine, processes with the variables of torchrun are ranks, and both together.
func TestRanks(t *testing.T) {
	for name, start := range map[string]func(j *job) int{
		"procs 2":      func(j *job) int { j.start("procs=2 steps=3"); return 2 },
		"procs 3":      func(j *job) int { j.start("procs=3 steps=3"); return 3 },
		"torchrun":     func(j *job) int { j.ranks(3, "steps=3", TokenVariable+"=secret"); return 3 },
		"two machines": func(j *job) int { j.ranks(2, "procs=2 steps=3"); return 4 },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t)
			n := start(j)
			j.wants()
			for r := range n {
				want := fmt.Sprintf("process %d\njoined %d of %d\nbegan\ndone\n", j.pid(r), r, n)
				if got := j.says(r); got != want {
					t.Errorf("rank %d wrote %q, want %q\n%s", r, got, want, j.out.String())
				}
			}
			for c, code := range j.codes {
				if code != 0 {
					t.Errorf("%v ends with %d", c.Env[len(c.Env)-4:], code)
				}
			}
		})
	}
}

// A rank that is killed, whichever and whenever, ends the others within two seconds, and they name it.
func TestKilledRank(t *testing.T) {
	for _, c := range []struct {
		name         string
		rank         int
		moment, want string
	}{
		{"child before all are there", 2, "", "rank 2: its process ended: signal: killed"},
		{"child in training", 1, "began", "rank 1: its process ended: signal: killed"},
		{"child as MPI starts", 1, "process", "rank 1: its process ended: signal: killed"},
		{"parent", 0, "began", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := newJob(t)
			j.start("procs=3 steps=10000")
			if c.moment != "" {
				j.await(c.rank, c.moment)
			}
			others := []int{j.pid(0), j.pid(1), j.pid(2)}
			j.signal(c.rank, syscall.SIGKILL)
			killed := time.Now()
			for _, pid := range others {
				for process.Alive(pid) && time.Since(killed) < 5*time.Second {
					time.Sleep(5 * time.Millisecond)
				}
			}
			if d := time.Since(killed); d > 2*time.Second {
				t.Errorf("the others ended after %v", d)
			}
			j.wants(c.want)
		})
	}
	t.Run("torchrun", func(t *testing.T) {
		j := newJob(t)
		j.ranks(3, "steps=10000")
		for r := range 3 {
			j.await(r, "began")
		}
		j.signal(2, syscall.SIGKILL)
		want := fmt.Sprintf("forced: rank 2 (process %d on ", j.pid(2))
		j.wants(want, want)
		if d := j.last.Sub(j.first); d > 2*time.Second {
			t.Errorf("the others ended %v later", d)
		}
	})
}

// A rank that hangs is named when it has not answered for the time of death. Ranks that were all stopped, as by Ctrl-Z,
// go on.
func TestHungRank(t *testing.T) {
	j := newJob(t)
	j.ranks(2, "steps=10000 dead=1000")
	j.await(0, "began")
	j.await(1, "began")
	for _, s := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		j.signal(0, s)
		j.signal(1, s)
		if s == syscall.SIGSTOP {
			time.Sleep(1500 * time.Millisecond)
		}
	}
	time.Sleep(300 * time.Millisecond)
	j.signal(1, syscall.SIGSTOP)
	j.await(0, "forced: ")
	j.signal(1, syscall.SIGKILL)
	j.wants(fmt.Sprintf("forced: rank 1 (process %d on ", j.pid(1)))
	if !strings.Contains(j.says(0), "has not answered for 1s: it hangs, or its machine is gone") {
		t.Error(j.says(0))
	}
}

// SIGTERM to any rank stops all at one step.
func TestStop(t *testing.T) {
	for r := range 3 {
		j := newJob(t)
		j.start("procs=3 steps=10000")
		j.await(r, "began")
		j.signal(r, syscall.SIGTERM)
		j.wants()
		_, want, _ := strings.Cut(j.says(0), "began\n")
		for other := range 3 {
			_, got, _ := strings.Cut(j.says(other), "began\n")
			if got != want || !strings.HasPrefix(got, "stopped at step ") ||
				!strings.HasSuffix(got, "\ndone\n") {
				t.Errorf("a signal to rank %d: rank %d wrote %q, rank 0 %q", r, other, j.says(other), want)
			}
		}
	}
}

// A rank that fails says why, and ends the others.
func TestFailingRank(t *testing.T) {
	for r, want := range [][]string{
		{"failed", "forced: rank 0: no step 5", "forced: rank 0: no step 5"},
		{"forced: rank 1: no step 5", "failed", "forced: rank 1: no step 5"},
	} {
		j := newJob(t)
		j.ranks(3, fmt.Sprintf("steps=10000 fail=%d:5", r))
		j.wants(want...)
		if d := j.last.Sub(j.first); d > 2*time.Second {
			t.Errorf("the others ended %v later", d)
		}
	}
}

// Ranks that would not train the same thing together are told so.
func TestRefusals(t *testing.T) {
	t.Run("facts", func(t *testing.T) {
		j := newJob(t)
		j.ranks(3, "facts=2:b:7,2:c:8")
		want := "are to do different things: b is 7, but 2 on rank 0; c is 8, but 3 on rank 0; start all ranks"
		j.wants(want, want, want)
		if got := j.says(1); !strings.Contains(got, fmt.Sprintf("refused: rank 2 (process %d on ", j.pid(2))) ||
			!strings.Contains(got, fmt.Sprintf("and rank 0 (process %d on ", j.pid(0))) {
			t.Error(got)
		}
	})
	t.Run("late", func(t *testing.T) { // a rank that comes when the others have been refused
		j := newJob(t)
		place := []string{"WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t)}
		want := "are to do different things: b is 7, but 2 on rank 0; start all ranks"
		for _, rank := range []string{"0", "2"} {
			j.start("facts=2:b:7", append(place, "RANK="+rank)...)
		}
		j.await(2, "refused")
		j.start("facts=2:b:7", append(place, "RANK=1")...)
		j.wants(want, want, want)
	})
	t.Run("token", func(t *testing.T) {
		j := newJob(t)
		place := []string{"WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t)}
		j.start("", append(place, "RANK=0", TokenVariable+"=a")...)
		j.await(0, "process")
		j.start("", append(place, "RANK=1", TokenVariable+"=b")...)
		j.await(1, "refuses this process: its token is another one; set "+TokenVariable)
		j.start("", append(place, "RANK=1", TokenVariable+"=a")...) // rank 0 goes on waiting
		j.wants("done", "done")
	})
	t.Run("number of ranks", func(t *testing.T) {
		j := newJob(t)
		place := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t)}
		j.start("wait=500", append(place, "RANK=0", "WORLD_SIZE=2")...)
		j.await(0, "process")
		j.start("", append(place, "RANK=2", "WORLD_SIZE=3")...)
		j.wants("refused: rank 1 of 2 did not come within 500ms; start all of them, see their output, or wait longer "+
			"with --wait", "", "it is rank 2 of 3, but rank 0 has 2 ranks")
	})
	t.Run("port", func(t *testing.T) {
		j := newJob(t)
		l := try.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer l.Close()
		go func() {
			for c, err := l.Accept(); err == nil; c, err = l.Accept() {
				fmt.Fprintln(c, "220 mail.example ready")
			}
		}()
		at := l.Addr().String()
		_, port, _ := net.SplitHostPort(at)
		j.start("", "RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port)
		j.start("", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port)
		j.wants("refused: rank 0 cannot listen on "+at+": another program uses the port; set MASTER_PORT",
			"refused: "+at+` is not rank 0 of vsetrain: expected its welcome, found "220 mail.example ready"`)
	})
	t.Run("rank 0 does not come", func(t *testing.T) {
		j := newJob(t)
		j.start("wait=200 dead=200", "RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+freePort(t))
		j.wants("", "refused: rank 0 did not answer at 127.0.0.1:")
	})
	t.Run("interrupted while waiting", func(t *testing.T) {
		j := newJob(t)
		place := []string{"WORLD_SIZE=3", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + freePort(t)}
		j.start("", append(place, "RANK=0")...)
		j.start("", append(place, "RANK=1")...)
		j.await(0, "process")
		j.await(1, "process")
		time.Sleep(300 * time.Millisecond)
		j.signal(1, syscall.SIGTERM)
		j.wants("refused: rank 1: was interrupted before all ranks had come", "refused: context canceled")
	})
}

// The launchers of MPI start it, and the ranks meet through it. A library of another kind than the launcher is refused.
func TestLaunchersOfMPI(t *testing.T) {
	open := []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"}
	for _, c := range []struct {
		launcher []string
		file     string
		want     string
	}{
		{[]string{"mpiexec.hydra"}, "libmpich.so.12", "joined 1 of 2\nbegan\ndone\n"},
		{open, "libmpi.so.40", "joined 1 of 2\nbegan\ndone\n"},
		{[]string{"mpiexec.hydra"}, "libmpi.so.40", "refused: MPICH's mpiexec started this process, but "},
		{open, "libmpich.so.12", "refused: Open MPI's mpirun started this process, but "},
		{nil, "libmpi.so.40", "is Open MPI, which its own launcher must start: mpirun -n N vsetrain train …"},
	} {
		t.Run(strings.Join(c.launcher, " ")+" "+c.file, func(t *testing.T) {
			j := newJob(t)
			files, _ := filepath.Glob("/usr/lib/*/" + c.file)
			if len(files) == 0 {
				t.Skipf("%s is not here; scripts/install-test-tools.sh installs it", c.file)
			}
			t.Setenv("VSETRAIN_MPI", files[0])
			if c.launcher == nil {
				j.start("procs=2")
				j.wants(c.want)
				return
			}
			launcher, err := exec.LookPath(c.launcher[0])
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(launcher, append(c.launcher[1:], "-n", "2", os.Args[0])...)
			cmd.Env = append(os.Environ(), testRank+"=steps=3 dir="+j.dir)
			out, _ := cmd.CombinedOutput()
			if got := j.says(1); !strings.Contains(got, c.want) {
				t.Errorf("rank 1 wrote %q, want %q\n%s", got, c.want, out)
			}
		})
	}
}
