package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/apps/view"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/house/try"
	"vsetrain/internal/run/config"
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

// safeBuffer may be read while it is written.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The command serves until it is interrupted, on an address that it prints, and warns where others reach it.
func TestView(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	try.Do(t, os.Mkdir(run, 0o777))
	c := config.Default()
	try.Do(t, os.WriteFile(filepath.Join(run, "config.yaml"), config.Marshal(&c), 0o666))
	for listen, warns := range map[string]bool{"": false, "127.0.0.1:0": false, "localhost:0": false,
		"0.0.0.0:0": true} {
		var out, errs safeBuffer
		a := &app{Streams: &ui.Streams{Out: &out, Err: &errs, Width: 80, Now: time.Now}}
		o := &viewOptions{Options: view.Options{Dir: run, Device: device.DefaultOptions()}, Listen: listen}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- o.run(ctx, a) }()
		var url []string
		for range 500 {
			if url = regexp.MustCompile(`^1 run of \S+ at (http://\S+/)\n$`).FindStringSubmatch(
				out.String()); url != nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if url == nil {
			t.Fatalf("--listen %q: printed %q, %q", listen, out.String(), errs.String())
		}
		r := try.Get(http.Get(url[1]))(t)
		body, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(body), "<h1>Runs</h1>") {
			t.Errorf("--listen %q: %v, %.200q", listen, err, body)
		}
		if got := strings.Contains(errs.String(), "warning: "); got != warns {
			t.Errorf("--listen %q: warnings %q", listen, errs.String())
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("--listen %q: %v", listen, err)
		}
	}
}
