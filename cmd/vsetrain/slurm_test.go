//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/apps/sweep"
	"vsetrain/lab/try"
)

const slurmSweep = `
set:
  data.dir: world
  model: {embed_dim: 64, word_dim: 32}
  train: {batch: 16, val_step: 10, epochs: 10, log_step: 1}
axes:
  - {param: optim.lr, values: [1e-4, 1e-3, 1e-2]}
seeds: [7, 8]
launcher: {kind: slurm, slurm: {throttle: 2, signal_seconds: 30, time: "5"}}
dir: sw
`

// slurmLimit is how long a job may take on a machine with other work.
const slurmLimit = 4 * time.Minute

// slurmCall calls a command of Slurm.
type slurmCall func(name string, args ...string) string

// TestSlurm has a sweep and a training of several ranks share a cluster of two nodes on this machine.
func TestSlurm(t *testing.T) {
	t.Helper()
	for _, name := range []string{"bash", "sbatch", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("needs Slurm and munge (scripts/slurm-testcluster.sh install): %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "slurm") // the path of a socket must be short
	try.Do(t, err)
	script := try.Get(filepath.Abs("../../scripts/slurm-testcluster.sh"))(t)
	out := filepath.Join(dir, "start.log") // a file, because the daemons keep what they inherit open
	cluster := func(command string) error {
		f, err := os.Create(out)
		if err != nil {
			return err
		}
		defer f.Close()
		c := exec.Command(script, command, filepath.Join(dir, "c"))
		c.Stdout, c.Stderr = f, f
		c.Env = append(os.Environ(), "SLURM_TEST_CPUS=4", "SLURM_TEST_NODES=2")
		return c.Run()
	}
	t.Cleanup(func() {
		if err := cluster("stop"); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	if err := cluster("start"); err != nil {
		b, _ := os.ReadFile(out)
		t.Fatalf("%v\n%s", err, b)
	}
	t.Setenv("SLURM_CONF", filepath.Join(dir, "c", "slurm.conf"))
	call := func(name string, args ...string) string {
		b, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, b)
		}
		return string(b)
	}
	t.Run("sweep", func(t *testing.T) { t.Parallel(); slurmSweeps(t, call) })
	t.Run("ranks", func(t *testing.T) { t.Parallel(); slurmRanks(t, call) })
}

// slurmIdle reports whether no job of a folder is left. One that was queued again starts two seconds later, when its
// node has forgotten the old one; Slurm would let it wait for two minutes.
func slurmIdle(call slurmCall, dir string) bool {
	idle := true
	for line := range strings.Lines(call("squeue", "--noheader", "--format=%i %r %Z")) {
		job := strings.Fields(line)
		if len(job) != 3 || job[2] != dir {
			continue
		}
		idle = false
		if job[1] == "BeginTime" {
			time.Sleep(2 * time.Second)
			call("scontrol", "update", "JobId="+job[0], "StartTime=now")
		}
	}
	return idle
}

// slurmSweeps runs a sweep of six trials on Slurm: the step of one task is killed, another is told that its time is
// nearly up. Both are queued again, continue from their checkpoints, and end as if nothing had happened.
func slurmSweeps(t *testing.T, call slurmCall) {
	dir := t.TempDir()
	try.Do(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(slurmSweep), 0o666))
	mustRun(t, dir, "data synth world --train 100 --dev 30 --test 0 --regions 4 --dim 128")
	mustRun(t, dir, "sweep run --config s.yaml")

	var hurt []sweep.Line // the first is killed, the second warned
	logs := func() string { return logsOf(t, filepath.Join(dir, "sw", "slurm", "*.log")) }
	deadline := time.Now().Add(slurmLimit)
	for ; ; time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not done after four minutes:\n%s\n%s", call("squeue"), logs())
		}
		for len(hurt) < 2 {
			trials := sweepStatus(t, dir).Trials
			i := slices.IndexFunc(trials, func(l sweep.Line) bool {
				return l.State == sweep.Running && l.Epoch >= 0.3 && l.Epoch <= 5 &&
					(len(hurt) == 0 || hurt[0].ID != l.ID)
			})
			if i < 0 {
				break
			}
			l := trials[i]
			how := []string{"--signal=KILL", l.Job + ".0"}
			if len(hurt) == 1 {
				how = []string{"--batch", "--signal=USR1", l.Job}
			}
			// The signal is sent at once, but scancel continues for minutes where the job is queued again meanwhile.
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			exec.CommandContext(ctx, "scancel", how...).Run()
			cancel()
			hurt = append(hurt, l)
		}
		if slurmIdle(call, dir) {
			break
		}
	}
	s := sweepStatus(t, dir)
	if s.Counts[sweep.Done] != 6 || !s.Done || len(hurt) != 2 {
		t.Fatalf("%+v, %d tasks hurt\n%s", s.Counts, len(hurt), logs())
	}
	for i, l := range hurt {
		want := "task " + l.Job + " ended with " + []string{"137", "75"}[i] + " and is queued again\n"
		if !strings.Contains(logs(), want) {
			t.Errorf("no %q in\n%s", want, logs())
		}
		if n := sessions(t, l.Dir); n != 2 {
			t.Errorf("trial %s had %d sessions, want 2", l.ID, n)
		}
		whole := filepath.Join(dir, "whole"+l.ID)
		mustRun(t, dir, "train --config", filepath.Join(l.Dir, "trial.yaml"), "--run", whole)
		sameRuns(t, l.Dir, whole)
	}
	// of the job that came last
	for _, name := range []string{"results.csv", "results.json", "best.yaml", "parallel.svg", "importance.pdf"} {
		if !exists(filepath.Join(dir, "sw", "collect", name)) {
			t.Errorf("the job that collects wrote no %s", name)
		}
	}
}

func logsOf(t *testing.T, pattern string) (all string) {
	t.Helper()
	for _, f := range try.Get(filepath.Glob(pattern))(t) {
		b := try.Get(os.ReadFile(f))(t)
		all += filepath.Base(f) + ":\n" + string(b)
	}
	return all
}
