package sweep

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"vsetrain/internal/files/runfs"
	"vsetrain/lab/try"
)

// The test program is also the process of a trial: SWEEP_TEST_TRIAL holds what it does.
func TestMain(m *testing.M) {
	if how := os.Getenv("SWEEP_TEST_TRIAL"); how != "" {
		os.Exit(pretend(how, os.Args[1], os.Args[2]))
	}
	os.Exit(m.Run())
}

// pretend is a trial: an epoch is a line of metrics, and a checkpoint holds the epochs that were done. how says what
// goes wrong with the trials of batch 32.
func pretend(how, dir, epochs string) int {
	n, _ := strconv.Atoi(epochs)
	b, _ := os.ReadFile(filepath.Join(dir, trialConfig))
	slow := how == "slow"
	switch {
	case how == "fail" && strings.Contains(string(b), "batch: 32"):
		fmt.Fprintln(os.Stderr, "some line\nvsetrain: step 3: not finite\n  lower optim.lr")
		return 1
	case how == "panic" && strings.Contains(string(b), "batch: 32"):
		panic("broken")
	case how == "die" && strings.Contains(string(b), "batch: 32"):
		p, _ := os.FindProcess(os.Getpid())
		p.Kill()
		time.Sleep(time.Minute)
	}
	if how == "gpus" {
		fmt.Println(os.Getenv("CUDA_VISIBLE_DEVICES"))
	}
	ended := make(chan bool)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	done, _ := position(dir)
	if b, err := os.ReadFile(filepath.Join(dir, runfs.CheckpointsName, "last")); err == nil {
		done, _ = strconv.ParseFloat(string(b), 64)
	}
	f, err := os.OpenFile(filepath.Join(dir, "metrics.jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return 1
	}
	for e := int(done) + 1; e <= n; e++ {
		if slow {
			select {
			case <-ended:
				return ExitInterrupted
			case <-time.After(20 * time.Millisecond):
			}
		}
		fmt.Fprintf(f, "{\"kind\":\"val\",\"epoch\":%d,\"m_recall\":%d}\n", e, e*10)
	}
	return 0
}

// worker works in slots on a plan with pretended trials.
func worker(p *Plan, s *Store, slots int, how string, events *[]string) *Worker {
	return &Worker{Plan: p, Store: s, Parallel: slots, Threads: 1, Index: -1, Now: time.Now,
		Beat: 10 * time.Millisecond,
		Poll: 5 * time.Millisecond,
		Child: func(dir string, epochs, _ int) *exec.Cmd {
			c := exec.Command(os.Args[0], dir, strconv.Itoa(epochs))
			c.Env = append(os.Environ(), "SWEEP_TEST_TRIAL="+how)
			return c
		},
		Report: func(e Event) {
			if events != nil {
				*events = append(*events, e.Kind+" "+e.Job.State.Point.Text("train.batch")+" "+e.Fail.Error)
			}
		}}
}

const batches = "set: {train.epochs: 3}\naxes: [{param: train.batch, values: [16, 32, 64]}]\nseeds: [1, 2]\n"

// Two workers share a sweep: every trial is trained once, and a further start finds nothing to do.
func TestWorkersShare(t *testing.T) {
	p, s := planOf(t, batches)
	var all sync.WaitGroup
	events := make([][]string, 3)
	for i := range 2 {
		all.Go(func() {
			if err := worker(p, s, 2, "good", &events[i]).Run(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(events[0]) + len(events[1]); n != 12 {
		t.Errorf("%d events, want a start and an end of 6 trials", n)
	}
	if err := worker(p, s, 2, "good", &events[2]).Run(context.Background()); err != nil || len(events[2]) != 0 {
		t.Errorf("the second start did %q, %v", events[2], err)
	}
	st, err := ReadStatus(p, s, time.Now())
	if err != nil || !st.Done || st.Counts[Done] != 6 || *st.Trials[0].Best != 30 || st.Trials[0].Epoch != 3 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A trial that fails, panics or is killed again and again is recorded with its error; the others continue.
func TestFailingTrials(t *testing.T) {
	for how, want := range map[string]string{"fail": "step 3: not finite\n  lower optim.lr", "panic": "panic: broken",
		"die": "ended by a signal 3 times"} {
		p, s := planOf(t, batches)
		try.Do(t, worker(p, s, 2, how, nil).Run(context.Background()))
		st, err := ReadStatus(p, s, time.Now())
		if err != nil || st.Counts[Done] != 4 || st.Counts[Failed] != 2 || !st.Done {
			t.Fatalf("%s: %+v, %v", how, st.Counts, err)
		}
		if got := st.Trials[2].Error; !strings.Contains(got, want) {
			t.Errorf("%s is recorded as %q, want %q", how, got, want)
		}
		states, err := p.States(s)
		try.Do(t, err)
		for _, x := range states {
			try.Do(t, s.Retry(x))
		}
		try.Do(t, worker(p, s, 1, "good", nil).Run(context.Background()))
		if st, err = ReadStatus(p, s, time.Now()); err != nil || st.Counts[Done] != 6 {
			t.Errorf("%s, tried again: %+v, %v", how, st.Counts, err)
		}
	}
}

// When the context ends, the trials save their state; the next start continues and repeats nothing.
func TestInterruptedSweep(t *testing.T) {
	p, s := planOf(t, strings.Replace(batches, "3}", "40}", 1))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(300*time.Millisecond, cancel)
	if err := worker(p, s, 2, "slow", nil).Run(ctx); !errors.Is(err, ErrInterrupted) {
		t.Fatal(err)
	}
	if st := try.Get(ReadStatus(p, s, time.Now()))(t); st.Counts[Running] != 0 || st.Counts[Stopped] == 0 || st.Done {
		t.Fatalf("%+v", st)
	}
	try.Do(t, worker(p, s, 2, "good", nil).Run(context.Background()))
	for _, tr := range p.Trials {
		b, err := os.ReadFile(filepath.Join(s.trialDir(tr.ID), "metrics.jsonl"))
		if n := strings.Count(string(b), "\n"); err != nil || n != 40 {
			t.Errorf("trial %s has %d epochs, %v", tr.ID, n, err)
		}
	}
}

// The time that is left is the time of all epochs, also of trials that wait, at the speed of those that run. Where none
// runs it is unknown.
func TestTimeLeft(t *testing.T) {
	p, s := planOf(t, batches)
	if st, err := ReadStatus(p, s, time.Now()); err != nil || st.ETA != nil {
		t.Errorf("before the first trial: %+v, %v", st, err)
	}
	now := time.Now()
	try.Do(t, s.begin(p.Trials[0], 3))
	states := try.Get(p.States(s))(t)
	try.Get(s.claim(states[0], 3, "", now.Add(-10*time.Second)))(t)
	metrics := filepath.Join(states[0].Dir, runfs.MetricsName)
	try.Do(t, os.WriteFile(metrics, []byte("{\"epoch\":1}\n"), 0o666))
	st, err := ReadStatus(p, s, now)
	if err != nil || st.ETA == nil || math.Abs(*st.ETA-10*(2+5*3)) > 1 || math.Abs(*st.Trials[0].ETA-20) > 1 {
		t.Errorf("%+v, %v", st, err)
	}
}

// An axis has at most ten labels, however many values it has.
func TestTicks(t *testing.T) {
	for n, want := range map[int]int{1: 1, 10: 10, 11: 6, 20: 10, 21: 7} {
		a := Axis{Ordered: true}
		for i := range n {
			a.Values = append(a.Values, Value{Text: strconv.Itoa(i), Number: float64(i)})
		}
		labels, at := a.ticks()
		if len(labels) != want || len(at) != want || labels[0] != "0" {
			t.Errorf("%d values have the labels %q at %v", n, labels, at)
		}
	}
}

// With an index a worker keeps to its trial.
func TestIndex(t *testing.T) {
	p, s := planOf(t, batches)
	w := worker(p, s, 1, "good", nil)
	w.Index = 4
	try.Do(t, w.Run(context.Background()))
	if left := try.Get(p.Indices(s))(t); ranges(left) != "0-3,5" {
		t.Errorf("left is %s", ranges(left))
	}
}

// A trial that was trained to its end, and whose log and result are gone, is trained anew: nothing else has its score.
func TestLogLost(t *testing.T) {
	p, s := planOf(t, batches)
	try.Do(t, worker(p, s, 1, "good", nil).Run(t.Context()))
	dir := s.trialDir(p.Trials[1].ID)
	for _, name := range []string{runfs.MetricsName, "result-3.json"} {
		try.Do(t, os.Remove(filepath.Join(dir, name)))
	}
	checkpoints := filepath.Join(dir, runfs.CheckpointsName)
	try.Do(t, errors.Join(os.Mkdir(checkpoints, 0o777), os.WriteFile(filepath.Join(checkpoints, "last"), []byte("3"),
		0o666)))
	var events []string
	if err := worker(p, s, 1, "good", &events).Run(t.Context()); err != nil || len(events) != 2 {
		t.Errorf("%q, %v", events, err)
	}
	st, err := ReadStatus(p, s, time.Now())
	if err != nil || !st.Done || st.Trials[1].Best == nil || *st.Trials[1].Best != 30 {
		t.Errorf("%+v, %v", st, err)
	}
}

// A worker that lost its trial to another ends its process and records nothing.
func TestLostTrial(t *testing.T) {
	p, s := planOf(t, strings.Replace(batches, "3}", "400}", 1))
	w := worker(p, s, 1, "slow", nil)
	w.Index = 0
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	st := &State{Dir: s.trialDir(p.Trials[0].ID)}
	for {
		if _, err := os.Stat(filepath.Join(st.Dir, "metrics.jsonl")); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	plant(t, st, Claim{Token: "other", Machine: "other"}, 0)
	for last := -1.0; ; { // until its process has stopped
		now := try.Get(position(st.Dir))(t)
		if now == last {
			break
		}
		last = now
		time.Sleep(300 * time.Millisecond)
	}
	if now, err := s.Read(p.Trials[:1]); err != nil || now[0].Failed != nil || len(now[0].Results) != 0 ||
		now[0].Claim == nil {
		t.Errorf("%+v, %v", now[0], err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, ErrInterrupted) && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Trials at the same time have GPUs of their own, as many as each is to have.
func TestGPUsOfTrials(t *testing.T) {
	p, s := planOf(t, "axes: [{param: train.batch, values: [16, 32]}]\n")
	var events []string
	w := worker(p, s, 1, "gpus", &events)
	w.GPUs, w.Each, w.Beat = []int{4, 5, 6, 7}, 2, time.Hour
	for slot, want := range []string{"4,5", "6,7", "4,5"} {
		state := &State{Trial: p.Trials[0], Dir: t.TempDir()}
		code, _, err := w.train(t.Context(), slot, Job{State: state, Epochs: 1}, nil)
		b, readErr := os.ReadFile(filepath.Join(state.Dir, logName))
		if err := errors.Join(err, readErr); err != nil || code != 0 || strings.TrimSpace(string(b)) != want {
			t.Errorf("slot %d: code %d, GPUs %q, %v; want %s", slot, code, b, err, want)
		}
	}
}
