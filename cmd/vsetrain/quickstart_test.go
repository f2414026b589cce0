package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/internal/house/try"
)

// A data set without a vocabulary is trained on and searched; a second call takes the run over. Without a data set a
// world is made.
func TestQuickstart(t *testing.T) {
	dir := t.TempDir()
	world, work := filepath.Join(dir, "a world"), filepath.Join(dir, "work")
	mustRun(t, dir, "data", "synth", world, "--train", "40", "--dev", "12", "--test", "12", "--regions", "3", "--dim",
		"16", "--images")
	try.Do(t, os.Remove(filepath.Join(world, "vocab.json")))
	for _, call := range []struct{ want, not string }{{"train --config demo", "earlier call"},
		{"is there from an earlier call", "train --config demo"}} {
		var out, errs safeBuffer
		a := &app{Streams: &ui.Streams{Out: &out, Err: &errs, Width: 80, Now: time.Now}}
		c := newCmdQuickstart(a)
		c.SetArgs([]string{world, "--work", work, "--no-open", "--listen", "127.0.0.1:0"})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.ExecuteContext(ctx) }()
		var url []string
		for range 6000 {
			url = regexp.MustCompile(`at (http://127\.0\.0\.1:\d+/search)\n`).FindStringSubmatch(out.String())
			if url != nil || len(done) > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if url == nil {
			t.Fatalf("%s%s", out.String(), errs.String())
		}
		r := try.Get(http.Get(url[1]))(t)
		page, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil || !strings.Contains(string(page), "has to be encoded") {
			t.Errorf("%s, %v", page, err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if text := out.String(); !strings.Contains(text, call.want) || strings.Contains(text, call.not) {
			t.Errorf("%s\nwants %q and not %q", text, call.want, call.not)
		}
	}
}
