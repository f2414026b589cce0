//go:build linux && (amd64 || arm64) && !nodl

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/internal/run/launch"
	"vsetrain/internal/run/runtest"
	"vsetrain/internal/system/mpi"
)

// ranksWorld is stopWorld, where MPICH is.
func ranksWorld(t *testing.T) string {
	t.Helper()
	for _, path := range mpi.Search("/", os.Getenv).Paths() {
		if kind, err := mpi.KindOf(path); err == nil && kind != mpi.OpenMPI {
			return stopWorld(t)
		}
	}
	t.Skip("MPICH is not here; scripts/install-test-tools.sh installs it")
	return ""
}

// The ranks of --procs train what one process trains, but for rounding. A signal stops them at one step with the state
// saved, and another number of ranks goes on.
func TestProcs(t *testing.T) {
	ranksWorld(t) // or skip
	dir, _ := killWorld(t, 3)
	losses := func(run string) (out []float64) {
		for _, line := range runtest.Metrics(t, filepath.Join(dir, run)) {
			var l struct {
				Kind string
				Loss float64
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			if l.Kind == "train" {
				out = append(out, l.Loss)
			}
		}
		return out
	}
	var out bytes.Buffer
	c := vsetrain(dir, &out, "train", "--config", "c.yaml", "--run", "r", "--procs", "3")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "r", "metrics.jsonl")
	for range 4000 { // until it has done some steps
		if b, _ := os.ReadFile(path); bytes.Count(b, []byte("\n")) >= 4 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := exitCode(t, c); code != exitInterrupted || strings.Count(out.String(), "the state is saved") != 1 {
		t.Fatalf("exit code %d\n%s", code, &out)
	}
	begun, whole := losses("r"), losses("whole")
	mustRun(t, dir, "train", "--resume", "--run", "r", "--procs", "2")
	got := losses("r")
	if len(begun) == 0 || len(begun) >= len(whole) || len(got) != len(whole) {
		t.Fatalf("%d steps, then %d, want %d at the end", len(begun), len(got), len(whole))
	}
	for i, want := range whole {
		if math.Abs(got[i]-want) > 1e-3*want {
			t.Errorf("the loss of line %d is %v, with one process %v", i, got[i], want)
		}
	}
}

// Ranks that were started with other settings, data or kernels are told which, by all of them.
func TestRanksDisagree(t *testing.T) {
	dir := ranksWorld(t)
	if err := os.CopyFS(filepath.Join(dir, "other"), os.DirFS(filepath.Join(dir, "world"))); err != nil {
		t.Fatal(err)
	}
	ids := filepath.Join(dir, "other", "dev_ids.txt")
	b, err := os.ReadFile(ids)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ids, bytes.Replace(b, []byte("1"), []byte("2"), 1), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ flag, want string }{
		{"seed=8", "seed is 8, that of rank 0 is 7;"},
		{"optim.lr=0.5", "optim.lr is 0.5, that of rank 0 is 0.002;"},
		{"data.dir=other", `file dev_ids.txt of data.dir is \d+ bytes \w{12}, that of rank 0 is \d+ bytes \w{12};`},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		var outs [2]bytes.Buffer
		var all []*exec.Cmd
		for r := range 2 {
			c := vsetrain(dir, &outs[r], "train", "--config", "c.yaml", "--run", "r", "--set", "seed=7")
			if r == 1 {
				c.Args = append(c.Args, "--set", x.flag)
			}
			c.Env = append(os.Environ(), fmt.Sprintf("RANK=%d", r), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
				"MASTER_PORT="+port)
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		want := regexp.MustCompile(`(?m)^vsetrain: rank 1 \(process \d+ on \S+\) and rank 0 \(process \d+ on \S+\) ` +
			`are to do different things: ` + x.want + ` start all ranks with the same program, configuration and data$`)
		for r, c := range all {
			if code := exitCode(t, c); code != exitFailure || !want.Match(outs[r].Bytes()) {
				t.Errorf("%s: rank %d ends with %d\n%s", x.flag, r, code, &outs[r])
			}
		}
	}
}

// The environment of the manifest's pods, with what Kubernetes adds, is what train reads.
func TestManifestIsRead(t *testing.T) {
	var out bytes.Buffer
	c := vsetrain(t.TempDir(), &out, "launch", "kubernetes", "--nodes", "3", "--procs", "2", "--image", "i", "--",
		"train", "demo")
	if err := c.Run(); err != nil {
		t.Fatal(err, &out)
	}
	vars := map[string]string{"JOB_COMPLETION_INDEX": "2"}
	for _, m := range regexp.MustCompile(`- name: ([A-Z_]+)\n +value: "?([^"\n]*)"?\n`).FindAllStringSubmatch(
		out.String(), -1) {
		vars[m[1]] = m[2]
	}
	secret := regexp.MustCompile(`(?m)^  token: (\w+)$`).FindStringSubmatch(out.String())
	if !strings.Contains(out.String(), "- name: "+launch.TokenVariable+"\n") || len(secret) != 2 {
		t.Fatal(out.String())
	}
	vars[launch.TokenVariable] = secret[1]
	p, err := launch.Environment(func(name string) string { return vars[name] })
	p = p.Times(2)
	want := launch.Place{Rank: 4, Ranks: 6, Locals: 2, Address: "vsetrain-demo-0.vsetrain-demo:29500",
		Launcher: "Kubernetes", Token: secret[1]}
	if err != nil || p != want {
		t.Errorf("%+v (%v), want %+v", p, err, want)
	}
}
