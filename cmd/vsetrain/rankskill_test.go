//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/lab/emulator"
	"vsetrain/lab/try"
)

var (
	rankKills = flag.Int("rank-kills", 0, "how often TestHurtRanks kills a rank")
	rankHangs = flag.Int("rank-hangs", 0, "how often TestHurtRanks stops one")
)

// Ranks of which one is killed, or hangs, at a random moment: all end, in two seconds or ten after the last sign of
// life, and another number of ranks goes on. In the end the run has the losses of one process, but for rounding. It is
// a part of make test-long.
func TestHurtRanks(t *testing.T) {
	if *rankKills+*rankHangs == 0 {
		t.Skip("make test-long kills ranks: -rank-kills 20 -rank-hangs 5")
	}
	ranksWorld(t) // or skip
	if *killSeed == 0 {
		*killSeed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(*killSeed, 1))
	dir, took := killWorld(t, 6)
	stats, runs, left := map[string]int{}, 0, *rankKills+*rankHangs
	run := func() string { return fmt.Sprint("r", runs) }
	ended := func() { // the run of the last session
		nearWhole(t, 1e-2, filepath.Join(dir, run()), filepath.Join(dir, "whole"))
		runs++
	}
	for i := 0; left > 0; i++ {
		ranks, signal := 2+i%3, syscall.SIGKILL
		if left <= *rankHangs {
			signal = syscall.SIGSTOP
		}
		var out bytes.Buffer
		c := vsetrain(dir, &out, fmt.Sprintf("train --config c.yaml --run %s --auto-resume --procs %d --wait 5s", run(),
			ranks))
		try.Do(t, c.Start())
		var pids []int
		until(t, "all ranks start", func() bool {
			pids = childrenOf(c.Process.Pid)
			return len(pids) >= ranks-1
		})
		time.Sleep(time.Duration(r.Int64N(int64(took))))
		victim, start := r.IntN(ranks-1), time.Now()
		missed := syscall.Kill(pids[victim], signal)
		code := exitCode(t, c)
		if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signal() == syscall.SIGABRT { // by UCX: mpi.Load
			code = exitInterrupted
			stats["rank 0 aborted"]++
		}
		switch {
		case missed != nil && code == 0: // too late
			ended()
			continue
		case code == 0: // after its work
			ended()
		case signal == syscall.SIGSTOP && code == exitFailure && strings.Contains(out.String(), "--wait"):
			stats["never came"]++ // stopped before it met the others, who have no other way to tell
		case code != exitInterrupted:
			t.Errorf("%v to rank %d of %d: exit code %d\n%s", signal, victim+1, ranks, code, &out)
		}
		left--
		stats[signal.String()]++
		limit := 15 * time.Second // two, and ten where it hangs, on a machine that does nothing else
		if d := time.Since(start); d > limit {
			t.Errorf("%v to rank %d of %d: the others ended after %v", signal, victim+1, ranks, d)
		}
		for _, pid := range pids {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); len(line) > 0 {
				t.Errorf("process %d outlived the job", pid)
			}
		}
	}
	mustRun(t, dir, "train --config c.yaml --procs 2 --auto-resume --run "+run())
	t.Logf("seed %d, %d runs: %v", *killSeed, runs+1, stats)
	ended()
}

// childrenOf are the processes that one has started and that run the program.
func childrenOf(pid int) (all []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, s := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(s); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// A rank with a GPU that is killed is named by the other, whose collectives end: it exits as one that can be resumed,
// and another number of GPUs goes on.
func TestKilledGPU(t *testing.T) {
	lib := emulator.Library(t)
	for name, value := range map[string]string{"VSETRAIN_CUDA_DRIVER": lib, "VSETRAIN_CUBLAS": lib,
		"VSETRAIN_NCCL": lib, "EMULATED_CUDA_DEVICES": "3"} {
		t.Setenv(name, value)
	}
	dir := stopWorld(t)
	var out bytes.Buffer
	c := vsetrain(dir, &out, "train --config c.yaml --run r --gpus 2 --set train.val_step=4 --set model.embed_dim=16 "+
		"--set model.word_dim=8")
	try.Do(t, c.Start())
	waitFor(t, filepath.Join(dir, "r", "metrics.jsonl"), "\n", 7)
	began := time.Now()
	for _, rank := range childrenOf(c.Process.Pid) {
		try.Do(t, syscall.Kill(rank, syscall.SIGKILL))
	}
	const want = "vsetrain: rank 1: its process ended: signal: killed; continue with --resume: "
	if code := exitCode(t, c); code != exitInterrupted || time.Since(began) > 10*time.Second ||
		!strings.Contains(out.String(), want) {
		t.Errorf("exit code %d after %v\n%s", code, time.Since(began), &out)
	}
	mustRun(t, dir, "train --resume --run r --gpus 3 --set train.max_steps=12")
}
