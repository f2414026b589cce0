package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// What a run needs after a power failure has a lasting name: the folder around the run directory is synced after that
// is made, the run directory after log and events are made, and both are synced before each checkpoint is renamed. The
// kernel is asked, through strace.
func TestNamesOfARunAreSynced(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, dir, "data synth world --train 8 --dev 4 --test 0 --regions 2 --dim 16")
	config := []byte("data: {dir: world}\nmodel: {embed_dim: 8, word_dim: 8}\ntrain: {epochs: 1, batch: 16}\n")
	try.Do(t, os.WriteFile(filepath.Join(dir, "c.yaml"), config, 0o666))
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed (scripts/install-test-tools.sh)")
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %s", out)
	}
	const trace = "-f -y -o trace -e trace=mkdirat,openat,fsync,renameat,renameat2,rename -- "
	c := exec.Command(strace, strings.Fields(trace+*program+" train --config c.yaml --run made/run")...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := try.Get(os.ReadFile(filepath.Join(dir, "trace")))(t)
	lines := strings.Split(string(b), "\n")
	at := func(from int, parts ...string) int {
		i := slices.IndexFunc(lines[from:], func(line string) bool {
			return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) })
		})
		if i < 0 {
			t.Fatalf("no line with %q after line %d of\n%s", parts, from, b)
		}
		return from + i
	}
	last := at(0, "rename", "/last.safetensors\"")
	for made, folder := range map[string]string{"mkdirat(|made\"": "", "mkdirat(|made/run\"": "/made",
		"O_CREAT|metrics.jsonl\"": "/made/run", "O_CREAT|events.out.tfevents.": "/made/run"} {
		from := at(0, strings.Split(made, "|")...)
		if synced := at(from, "fsync(", dir+folder+">"); synced > last {
			t.Errorf("%s is synced after the first checkpoint", dir+folder)
		}
	}
	if events := at(0, "fsync(", "/made/run/events.out.tfevents."); events > last {
		t.Error("events are synced after the first checkpoint")
	}
}
