package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vsetrain/lab/try"
)

// What a run needs after a power failure has a lasting name: the folder around the run directory is synced after that
// is made, the run directory after log and events are made, and both are synced before each checkpoint is renamed. The
// kernel is asked, through strace.
func TestNamesOfARunAreSynced(t *testing.T) {
	dir := t.TempDir()
	mustRun(t, dir, "data", "synth", "world", "--train", "8", "--dev", "4", "--test", "0", "--regions", "2",
		"--dim", "16")
	config := []byte("data: {dir: world}\nmodel: {embed_dim: 8, word_dim: 8}\ntrain: {epochs: 1, batch: 16}\n")
	try.Do(t, os.WriteFile(filepath.Join(dir, "c.yaml"), config, 0o666))
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed (scripts/install-test-tools.sh)")
	}
	if out, err := exec.Command(strace, "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("strace cannot trace here: %s", out)
	}
	var out bytes.Buffer
	c := vsetrain(dir, &out, "train", "--config", "c.yaml", "--run", "made/run")
	c.Path, c.Args = strace, append([]string{strace, "-f", "-y", "-o", "trace", "-e",
		"trace=mkdirat,openat,fsync,renameat,renameat2,rename", "--", c.Path}, c.Args[1:]...)
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	b := try.Get(os.ReadFile(filepath.Join(dir, "trace")))(t)
	lines := strings.Split(string(b), "\n")
	at := func(from int, parts ...string) int {
	line:
		for i := from; i < len(lines); i++ {
			for _, p := range parts {
				if !strings.Contains(lines[i], p) {
					continue line
				}
			}
			return i
		}
		t.Fatalf("no line with %q behind line %d of\n%s", parts, from, b)
		return 0
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
