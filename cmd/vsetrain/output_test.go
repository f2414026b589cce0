package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// full is an output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What cannot be printed is a failure of every command, also of those that only print.
func TestOutputThatFails(t *testing.T) {
	for _, line := range []string{"version", "version --json", "config show", "config schema", "--help",
		"data check --help"} {
		var errs bytes.Buffer
		code := newApp(full{}, &errs).run(strings.Fields(line))
		if code != exitFailure || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%s: exit code %d, %q", line, code, errs.String())
		}
	}
}

// On a terminal the bar of embed ends with the number of all rows, and what is printed begins below it.
func TestBarOfEmbedEnds(t *testing.T) {
	var terminal bytes.Buffer
	a := newApp(&terminal, &terminal)
	a.OutTTY, a.ErrTTY = true, true
	line := "embed ../../testdata/torch/vsepp/checkpoint.pth.tar --data ../../testdata/torch/vsepp/data --of images " +
		"--device cpu --out " + filepath.Join(t.TempDir(), "x.npy")
	if code := a.run(strings.Fields(line)); code != exitOK || !strings.Contains(terminal.String(), "  100%\r\n") {
		t.Errorf("exit code %d, %q", code, &terminal)
	}
}
