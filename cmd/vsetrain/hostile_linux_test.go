package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vsetrain/internal/house/try"
)

// Files that claim to be large, or are large and hold nothing, end the program with a message within a gigabyte of
// memory and ten seconds of processor time, which the system takes away beyond: a row for what commands read alone.
func TestHostileFilesInAGigabyte(t *testing.T) {
	const gigabyte = 1 << 30
	npy := func(shape string) string {
		head := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%s,), }", shape)
		head += strings.Repeat(" ", 117-len(head)) + "\n"
		return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(head)))) + head
	}
	long := binary.LittleEndian.AppendUint64(nil, 1<<62)
	for _, c := range []struct {
		name, file, begin string
		size              int64 // zeros follow the beginning up to it; 0 is none
		command, want     string
	}{
		{"configuration", "a.yaml", "train:", 2 * gigabyte, "config show --config a.yaml", "too large"},
		{"features that claim much", "d/train_ims.npy", npy("1099511627776, 36, 2048"), 0, "data check d",
			"train_ims.npy"},
		{"header of features", "d/train_ims.npy", "\x93NUMPY\x02\x00\xff\xff\xff\x7f", 2 * gigabyte, "data check d",
			"train_ims.npy"},
		{"captions", "d/train_caps.txt", "a dog\n", 5 * gigabyte, "data vocab d", "at most 4294967295"},
		{"manifest", "d/vsetrain-manifest.json", `{"sha256":"`, 2 * gigabyte, "verify d", "too large"},
		{"header of safetensors", "a.safetensors", string(long), 2 * gigabyte, "verify a.safetensors",
			"at most 100000000"},
		{"header of a checkpoint", "b.safetensors", string(long), 0, "eval b.safetensors", "at most 100000000"},
		{"pickle", "a.pth.tar", "\x80\x02\x8e" + string(long), 2 * gigabyte, "eval a.pth.tar",
			"not a PyTorch checkpoint"},
		{"record of events", "events.out.tfevents.1.a", string(long), 2 * gigabyte, "verify events.out.tfevents.1.a",
			"broken record"},
		{"sweep", "s.yaml", "axes:", 2 * gigabyte, "sweep status s.yaml", "too large"},
		{"TSV", "a.tsv", "1\t2", 2 * gigabyte, "data convert a.tsv --out o --split train", "a.tsv"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, c.file)
			try.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
			try.Do(t, os.WriteFile(path, []byte(c.begin), 0o666))
			if c.size > 0 {
				if err := os.Truncate(path, c.size); err != nil {
					t.Skip(err)
				}
			}
			cmd := exec.Command("sh", "-c", "ulimit -d 1048576 && ulimit -t 10 && exec vsetrain "+c.command)
			cmd.Dir = dir
			start := time.Now()
			out, err := cmd.CombinedOutput()
			used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			text := string(out)
			crashed := strings.Contains(text, "goroutine ") || strings.Contains(text, "fatal error")
			if code := cmd.ProcessState.ExitCode(); err == nil || code != 1 && code != 2 || crashed ||
				!strings.Contains(text, c.want) || len(text) > 4000 {
				t.Errorf("%s: code %d: %.2000s", c.command, code, text)
			}
			t.Logf("%v of processor time in %v: %.200s", used, time.Since(start), text)
		})
	}
}
