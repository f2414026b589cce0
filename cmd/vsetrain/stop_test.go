//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// stopWorld is a folder with a data set and a configuration of a run that takes its time.
func stopWorld(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	config := strings.Replace(killConfig, "%s", "name: lmh", 1)
	try.Do(t, os.WriteFile(filepath.Join(dir, "c.yaml"), []byte(strings.Replace(config, "%d", "400", 1)), 0o666))
	mustRun(t, dir, "data synth world --train 40 --dev 12 --test 0 --regions 4 --dim 128")
	return dir
}

// Whoever reads the output goes away, as head does: the state is saved, and the exit code says so.
func TestClosedPipeSavesTheState(t *testing.T) {
	dir := stopWorld(t)
	for _, run := range []string{"out", "both"} { // standard error as well
		r, w, err := os.Pipe()
		try.Do(t, err)
		var errs bytes.Buffer
		c := vsetrain(dir, &errs, "train --config c.yaml --run "+run)
		c.Stdout = w
		if run == "both" {
			c.Stderr = w
		}
		try.Do(t, c.Start())
		w.Close()
		try.Get(r.Read(make([]byte, 10)))(t)
		r.Close()
		if code := exitCode(t, c); code != exitInterrupted {
			t.Errorf("exit code %d\n%s", code, &errs)
		}
		const want = "continue with --resume: vsetrain train --resume --run out\n"
		if run == "out" && !strings.HasSuffix(errs.String(), want) {
			t.Errorf("it says %q", &errs)
		}
		if !exists(filepath.Join(dir, run, "checkpoints", "last.safetensors")) {
			t.Error("nothing is saved")
		}
	}
}

// A training that is told to end at any moment, as one process or as a rank that waits for the others, says that its
// state is saved, and ends with the code for that, if and only if there is a checkpoint.
func TestSavedIsSaved(t *testing.T) {
	dir := stopWorld(t)
	r := rand.New(rand.NewPCG(1, 5))
	for i := range 12 {
		run := fmt.Sprint("r", i)
		var out bytes.Buffer
		c := vsetrain(dir, &out, "train --config c.yaml --run "+run)
		if rank := i % 3; rank < 2 {
			c.Env = append(os.Environ(), "WORLD_SIZE=2", fmt.Sprint("RANK=", rank), "MASTER_ADDR=127.0.0.1",
				"MASTER_PORT=29791")
		}
		try.Do(t, c.Start())
		time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
		try.Do(t, c.Process.Signal(syscall.SIGTERM))
		code := exitCode(t, c)
		saved := exists(filepath.Join(dir, run, "checkpoints", "last.safetensors"))
		if saved != (code == exitInterrupted) || saved != strings.Contains(out.String(), "the state is saved") {
			t.Errorf("exit code %d, saved: %v\n%s", code, saved, &out)
		}
	}
}

// Under nohup a terminal that is closed does not end a run.
func TestIgnoredHangup(t *testing.T) {
	dir := stopWorld(t)
	c := exec.Command("sh", "-c", `trap "" HUP; exec "$@"`, "sh", *program, "train", "--config", "c.yaml", "--run", "r")
	c.Dir = dir
	try.Do(t, c.Start())
	log := filepath.Join(dir, "r", "metrics.jsonl")
	waitFor(t, log, "\n", 3)
	try.Do(t, c.Process.Signal(syscall.SIGHUP))
	b, _ := os.ReadFile(log)
	waitFor(t, log, "\n", bytes.Count(b, []byte("\n"))+10) // it continues
	try.Do(t, c.Process.Signal(os.Interrupt))
	if code := exitCode(t, c); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

// A command that saves no state says that it was interrupted, and no more.
func TestInterruptedWithoutState(t *testing.T) {
	dir := stopWorld(t)
	out := try.Get(os.Create(filepath.Join(dir, "out")))(t)
	defer out.Close()
	var errs bytes.Buffer
	c := vsetrain(dir, &errs, "lr-range --config c.yaml --steps 10000000")
	c.Stdout = out
	try.Do(t, c.Start())
	waitFor(t, out.Name(), "with lmh", 1)
	try.Do(t, c.Process.Signal(os.Interrupt))
	if code := exitCode(t, c); code != exitCtrlC || !strings.HasSuffix(errs.String(), "vsetrain: interrupted\n") {
		t.Errorf("exit code %d\n%s", code, &errs)
	}
}

// A second Ctrl-C, while the program is busy or hangs, ends it at once, says what is not saved and removes half-written
// files; further signals of other kinds do not.
func TestSecondCtrlC(t *testing.T) {
	dir := stopWorld(t)
	mustRun(t, dir, "train --config c.yaml --run r --set train.max_steps=3")
	r, w, err := os.Pipe()
	try.Do(t, err)
	defer r.Close()
	defer w.Close()
	fd := int(w.Fd())
	try.Do(t, syscall.SetNonblock(fd, true))
	for err = nil; err == nil; { // a full pipe: the program waits in its first line
		_, err = syscall.Write(fd, make([]byte, 4096))
	}
	try.Do(t, syscall.SetNonblock(fd, false))
	var errs bytes.Buffer
	c := vsetrain(dir, &errs, "train --resume --run r")
	c.Stdout = w
	try.Do(t, c.Start())
	waitFor(t, filepath.Join(dir, "r", "env.json"), `"pid"`, 2)
	half := filepath.Join(dir, "r", "checkpoints", ".last.safetensors.tmp-00000000-1-1")
	try.Do(t, os.WriteFile(half, nil, 0o666))
	for _, s := range []os.Signal{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGHUP} {
		try.Do(t, c.Process.Signal(s))
		time.Sleep(20 * time.Millisecond)
	}
	if !exists(half) {
		t.Error("ended by a further signal that is no Ctrl-C")
	}
	try.Do(t, c.Process.Signal(os.Interrupt))
	if code := exitCode(t, c); code != exitCtrlC {
		t.Errorf("exit code %d", code)
	}
	want := "vsetrain: stopped at once: not saved since step 3; vsetrain train --resume --run r continues there\n"
	if !strings.HasSuffix(errs.String(), want) {
		t.Errorf("it says %q", &errs)
	}
	if exists(half) {
		t.Error("a half-written file stays")
	}
}

// A terminal that is closed ends sweeps as it ends a run: the trials are saved, and the same command continues with
// them.
func TestHangupSavesASweep(t *testing.T) {
	hangups := make(chan os.Signal, 1) // a process that nohup started ignores them, and so would the sweep
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	dir := stopWorld(t)
	s := strings.Replace(killedSweep, "epochs: 3", "epochs: 400", 1)
	try.Do(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(s), 0o666))
	saved := func() (n int) {
		files, _ := filepath.Glob(filepath.Join(dir, "sw", "trials", "*", "checkpoints", "last.safetensors"))
		return len(files)
	}
	for i, command := range []string{"run", "worker --threads 1"} {
		before := steps(t, dir)
		var out bytes.Buffer
		c := vsetrain(dir, &out, "sweep "+command+" --config s.yaml")
		try.Do(t, c.Start())
		until(t, "eight steps of a sweep", func() bool { return steps(t, dir) >= before+8 })
		try.Do(t, c.Process.Signal(syscall.SIGHUP))
		if code := exitCode(t, c); code != exitInterrupted || !strings.Contains(out.String(), "sweep interrupted") {
			t.Errorf("sweep %s: exit code %d\n%s", command, code, &out)
		}
		if i == 0 && saved() == 0 || steps(t, dir) <= before {
			t.Errorf("sweep %s: nothing is saved", command)
		}
	}
}

// A signal during one of several seeds saves that run, and the message names the command that continues all of them.
func TestInterruptedSeeds(t *testing.T) {
	dir := stopWorld(t)
	var out bytes.Buffer
	c := vsetrain(dir, &out, "train --config c.yaml --run r --seeds 7,8")
	code := stopped(t, c, syscall.SIGTERM, filepath.Join(dir, "r-seed7", "metrics.jsonl"), 3)
	const want = "continue with --resume: vsetrain train --resume --run r --seeds 7,8\n"
	if code != exitInterrupted || !strings.HasSuffix(out.String(), want) {
		t.Errorf("exit code %d\n%s", code, &out)
	}
	if !exists(filepath.Join(dir, "r-seed7", "checkpoints", "last.safetensors")) ||
		exists(filepath.Join(dir, "r-seed8")) {
		t.Error("the run is not saved, or the next one has begun")
	}
}
