package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/apps/sweep"
	"vsetrain/internal/files/safetensors"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
)

var (
	kills    = flag.Int("kills", 5, "how often TestKillAndResume kills the program")
	killSeed = flag.Uint64("kill-seed", 0, "seed of the moments of TestKillAndResume; 0 draws one")
	killLoss = flag.String("kill-loss", "name: lseh", "keys of the loss that TestKillAndResume trains with")
	program  = flag.String("program", "vsetrain", "program that TestKillAndResume runs; by default the test itself")
)

// The network is large enough that a good part of the time goes into writing checkpoints, one every three steps.
const killConfig = `data: {dir: world}
model: {embed_dim: 128, word_dim: 64}
loss: {%s}
optim: {lr: 2e-3, lr_update: 1}
train: {epochs: %d, batch: 16, val_step: 3, log_step: 1}
`

// killWorld makes a data set and an uninterrupted run, and returns the folder and how long the run took.
func killWorld(t *testing.T, epochs int) (dir string, took time.Duration) {
	t.Helper()
	dir = t.TempDir()
	config := fmt.Appendf(nil, killConfig, *killLoss, epochs)
	try.Do(t, os.WriteFile(filepath.Join(dir, "c.yaml"), config, 0o666))
	mustRun(t, dir, "data synth world --train 40 --dev 12 --test 0 --regions 4 --dim 128")
	mustRun(t, dir, "precompute-svd --data world --k 8")
	start := time.Now()
	mustRun(t, dir, "train --config c.yaml --run whole")
	return dir, time.Since(start)
}

// A run that is killed at random moments and resumed each time ends with the weights, moments and metrics of the
// uninterrupted one, bit for bit.
func TestKillAndResume(t *testing.T) {
	if *killSeed == 0 {
		*killSeed = rand.Uint64()
	}
	defer func() {
		failed := 0
		if t.Failed() {
			failed = 1
		}
		t.Logf("campaign: kills of a training: %d found, %[1]d tried, %d failed", *kills, failed)
	}()
	r := rand.New(rand.NewPCG(*killSeed, 0))
	epochs := 2 + *kills
	dir, took := killWorld(t, epochs)
	start := time.Now()
	mustRun(t, dir, "train --config c.yaml --run one --set train.max_steps=1")
	// On average a session starts and does a part of the work that leaves some of it for the last one.
	most := 2 * (time.Since(start) + (took-time.Since(start))/time.Duration(2**kills))
	stats := map[string]int{}
	rounds := 0
	for left := *kills; left > 0; rounds++ {
		run := fmt.Sprintf("run%d", rounds)
		for ; !killedSession(t, dir, run, r, left > 0, most, stats); left-- {
			checkLast(t, filepath.Join(dir, run))
		}
		sameRuns(t, filepath.Join(dir, run), filepath.Join(dir, "whole"))
	}
	t.Logf("%d kills at random moments (seed %d) in %d runs of %d steps: %d before the run began, %d before its "+
		"first checkpoint, %d while a checkpoint was written, "+
		"%d at other times; weights, moments and metrics equal those of the uninterrupted run bit for bit",
		*kills, *killSeed, rounds, 13*epochs, stats["unborn"], stats["first"], stats["writing"], stats["other"])
}

// killedSession starts or continues a run and kills it after a random time up to most; it reports whether the run came
// to its end before.
func killedSession(t *testing.T, dir, run string, r *rand.Rand, kill bool, most time.Duration,
	stats map[string]int) bool {
	t.Helper()
	line := fmt.Sprintf("train --config c.yaml --run %s --set device.threads=%d", run, 1+r.IntN(3))
	if exists(filepath.Join(dir, run, "config.yaml")) {
		line += " --resume"
	}
	var out bytes.Buffer
	c := vsetrain(dir, &out, line)
	try.Do(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	moment := make(<-chan time.Time)
	if kill {
		moment = time.After(time.Duration(r.Int64N(int64(most))))
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Fatalf("vsetrain %s: %v\n%s", line, err, &out)
		}
		return true
	case <-moment:
	}
	if err := c.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	if err := <-ended; err == nil { // it came to its end just now
		return true
	}
	halves, err := filepath.Glob(filepath.Join(dir, run, "checkpoints", fmt.Sprintf(".*.tmp-*-%d-*", c.Process.Pid)))
	try.Do(t, err)
	switch {
	case len(halves) > 0:
		stats["writing"]++
	case !exists(filepath.Join(dir, run, "config.yaml")):
		stats["unborn"]++
	case !exists(filepath.Join(dir, run, "checkpoints", "last.safetensors")):
		stats["first"]++
	default:
		stats["other"]++
	}
	return false
}

// checkLast checks that a kill left whole checkpoints, or none.
func checkLast(t *testing.T, run string) {
	t.Helper()
	for _, name := range []string{"last", "best"} {
		f, err := safetensors.Open(filepath.Join(run, "checkpoints", name+".safetensors"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		try.Do(t, err)
		f.Close()
	}
}

// sameRuns compares the checkpoints of two runs byte for byte and their metrics line for line, times left out.
func sameRuns(t *testing.T, got, want string) {
	t.Helper()
	try.Do(t, try.Get(runtest.ReadOutcome(want))(t).Differs(got))
}

// stopped starts a command, sends it a signal when a log has that many lines, and returns its exit code.
func stopped(t *testing.T, c *exec.Cmd, sig os.Signal, log string, lines int) int {
	t.Helper()
	try.Do(t, c.Start())
	waitFor(t, log, "\n", lines)
	try.Do(t, c.Process.Signal(sig))
	return exitCode(t, c)
}

// exitCode waits for a command and returns its exit code. One that does not end is killed.
func exitCode(t *testing.T, c *exec.Cmd) int {
	t.Helper()
	defer time.AfterFunc(2*time.Minute, func() {
		t.Errorf("%v goes on after two minutes", c.Args)
		c.Process.Kill()
	}).Stop()
	var exit *exec.ExitError
	if err := c.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.ProcessState.ExitCode()
}

// waitFor waits until a file holds a text that many times.
func waitFor(t *testing.T, path, text string, times int) {
	t.Helper()
	until(t, fmt.Sprintf("%s holds %q %d times", path, text, times), func() bool {
		b, _ := os.ReadFile(path)
		return bytes.Count(b, []byte(text)) >= times
	})
}

// Ctrl-C, SIGTERM, SIGUSR1 and SIGHUP save the state, say how to continue and end with 75; the resumed run ends as the
// uninterrupted one.
func TestSignalsSaveTheState(t *testing.T) {
	// half a second of steps: the signal comes before the last one, also where one processor runs both
	const epochs = 10
	dir, _ := killWorld(t, epochs)
	for i, sig := range stopSignals() {
		name := fmt.Sprintf("signal%d", i)
		var out bytes.Buffer
		c := vsetrain(dir, &out, "train --config c.yaml --run "+name)
		code := stopped(t, c, sig, filepath.Join(dir, name, "metrics.jsonl"), 4)
		want := "vsetrain: training interrupted; the state is saved, continue with --resume: vsetrain train --resume " +
			"--run " + name + "\n"
		if code != exitInterrupted || !strings.HasSuffix(out.String(), want) {
			t.Fatalf("%v: exit code %d\n%s", sig, code, &out)
		}
		lines, whole := runtest.Metrics(t, filepath.Join(dir, name)), runtest.Metrics(t, filepath.Join(dir, "whole"))
		if len(lines) == 0 || len(lines) >= len(whole) || !slices.Equal(lines, whole[:len(lines)]) {
			t.Errorf("%v: interrupted with %d lines of metrics of %d", sig, len(lines), len(whole))
		}
		if i == 0 {
			mustRun(t, dir, "train --resume --run "+name)
			sameRuns(t, filepath.Join(dir, name), filepath.Join(dir, "whole"))
			continue
		}
		most := strings.Count(strings.Join(lines, "\n"), `"kind":"train"`)/3*3 + 6 // four steps more, or some, tell too
		mustRun(t, dir, fmt.Sprintf("train --resume --run %s --set train.max_steps=%d", name, most))
		got := runtest.Metrics(t, filepath.Join(dir, name))
		if len(got) <= len(lines) || len(got) > len(whole) || !slices.Equal(got, whole[:len(got)]) {
			t.Errorf("%v: resumed with %d lines of metrics that are not the first of %d", sig, len(got), len(whole))
		}
	}
}

const killedSweep = `
set:
  data.dir: world
  model: {embed_dim: 64, word_dim: 32}
  train: {batch: 16, val_step: 5, epochs: 3, log_step: 1}
axes: [{param: optim.lr, values: [1e-3, 1e-2]}]
launcher: {workers: 2, threads: 1}
dir: sw
`

// A sweep that is killed continues where it stood: its trials end as if they had been trained alone in one piece, and
// none is trained again.
func TestKilledSweepGoesOn(t *testing.T) {
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(killedSweep), 0o666))
	mustRun(t, dir, "data synth world --train 80 --dev 10 --test 0 --regions 4 --dim 128")
	for range 2 {
		before := steps(t, dir)
		var out bytes.Buffer
		c := vsetrain(dir, &out, "sweep run --config s.yaml")
		try.Do(t, c.Start())
		until(t, "eight steps of a sweep", func() bool { return steps(t, dir) >= before+8 })
		try.Do(t, c.Process.Kill())
		c.Wait()
	}
	mustRun(t, dir, "sweep run --config s.yaml")
	s := sweepStatus(t, dir)
	if !s.Done || s.Counts[sweep.Done] != 2 {
		t.Fatalf("%+v", s.Counts)
	}
	hit := 0
	for _, l := range s.Trials {
		if sessions(t, l.Dir) > 1 {
			hit++
		}
		whole := filepath.Join(dir, "whole"+l.ID)
		mustRun(t, dir, "train --config", filepath.Join(l.Dir, "trial.yaml"), "--run", whole)
		sameRuns(t, l.Dir, whole)
	}
	if hit == 0 {
		t.Error("no trial was interrupted")
	}
	if out := mustRun(t, dir, "sweep run --config s.yaml"); strings.Contains(out, "started") {
		t.Errorf("a sweep that is done: %s", out)
	}
}

// steps counts the lines of metrics of all trials.
func steps(t *testing.T, dir string) (n int) {
	t.Helper()
	files := try.Get(filepath.Glob(filepath.Join(dir, "sw", "trials", "*", "metrics.jsonl")))(t)
	for _, f := range files {
		b := try.Get(os.ReadFile(f))(t)
		n += bytes.Count(b, []byte("\n"))
	}
	return n
}

// sweepStatus reads `vsetrain sweep status --json`.
func sweepStatus(t *testing.T, dir string) (s sweep.Status) {
	t.Helper()
	var v struct {
		Counts map[string]int
		Done   bool
		Trials []struct {
			ID, State, Job, Dir string
			Epoch               float64
		}
	}
	try.Do(t, json.Unmarshal([]byte(mustRun(t, dir, "sweep status --config s.yaml --json")), &v))
	s.Counts, s.Done = v.Counts, v.Done
	for _, l := range v.Trials {
		s.Trials = append(s.Trials, sweep.Line{ID: l.ID, State: l.State, Job: l.Job, Dir: filepath.Join(dir, l.Dir),
			Epoch: l.Epoch})
	}
	return s
}

// sessions counts the sessions of a run.
func sessions(t *testing.T, run string) int {
	t.Helper()
	b := try.Get(os.ReadFile(filepath.Join(run, "env.json")))(t)
	var v struct{ Sessions []json.RawMessage }
	try.Do(t, json.Unmarshal(b, &v))
	return len(v.Sessions)
}
