package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"vsetrain/internal/run/config"
	"vsetrain/lab/try"
)

// taken sets a variable to an address of this machine that somebody listens on until the script ends: taken ADDR.
func taken(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: taken VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// The command serves until it is interrupted, on an address that it prints, and warns where others reach it.
func TestView(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	try.Do(t, os.Mkdir(run, 0o777))
	c := config.Default()
	try.Do(t, os.WriteFile(filepath.Join(run, "config.yaml"), config.Marshal(&c), 0o666))
	for listen, warns := range map[string]bool{"": false, "127.0.0.1:0": false, "localhost:0": false,
		"0.0.0.0:0": true} {
		s := answering(t, nil, "view", run, "--listen", listen)
		if body := get(t, s.url); !strings.Contains(body, "<h1>Runs</h1>") {
			t.Errorf("--listen %q: %.200q", listen, body)
		}
		if got := strings.Contains(s.String(), "warning: "); got != warns {
			t.Errorf("--listen %q: printed %q", listen, s)
		}
		s.stop(t)
	}
}
