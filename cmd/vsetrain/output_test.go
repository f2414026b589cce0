package main

import (
	"bytes"
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
