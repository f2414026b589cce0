package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
)

// full is an output on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What cannot be printed is a failure of every command, also of those that only print.
func TestOutputThatFails(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"version", "--json"}, {"config", "show"}, {"config", "schema"},
		{"--help"},
		{"data", "check", "--help"}} {
		var errs bytes.Buffer
		a := &app{Streams: &ui.Streams{Out: full{}, Err: &errs, Now: time.Now}}
		if code := a.run(args); code != exitFailure || !strings.Contains(errs.String(), "no space left on device") {
			t.Errorf("%s: exit code %d, %q", strings.Join(args, " "), code, errs.String())
		}
	}
}

// On a terminal the bar of embed ends with the number of all rows, and what is printed begins below it.
func TestBarOfEmbedEnds(t *testing.T) {
	fixture := filepath.Join("..", "..", "testdata", "torch", "vsepp")
	var terminal bytes.Buffer
	a := &app{Streams: &ui.Streams{Out: &terminal, Err: &terminal, OutTTY: true, ErrTTY: true, Width: 100,
		Now: time.Now}}
	if code := a.run([]string{"embed", "--checkpoint", filepath.Join(fixture, "checkpoint.pth.tar"), "--data",
		filepath.Join(fixture, "data"), "--of", "images", "--device", "cpu", "--out",
		filepath.Join(t.TempDir(), "x.npy")}); code != exitOK || !strings.Contains(terminal.String(), "  100%\r\n") {
		t.Errorf("exit code %d, %q", code, &terminal)
	}
}
