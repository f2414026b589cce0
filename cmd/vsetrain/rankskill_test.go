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
