package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/internal/house/try"
)

// The command answers until it is interrupted, on an address that it prints: an embedder, and a pair scorer with a
// shortlist. The token of the environment is asked for.
func TestServe(t *testing.T) {
	fixture := func(network string) (checkpoint, data string) {
		dir := filepath.Join("..", "..", "testdata", "torch", network)
		return filepath.Join(dir, "checkpoint.pth.tar"), filepath.Join(dir, "data")
	}
	const token = "0123456789abcdef"
	short, _ := fixture("vsepp")
	for network, more := range map[string][]string{"vseinf": nil,
		"gsmn": {"--shortlist", short, "--shortlist-size", "3"}} {
		checkpoint, data := fixture(network)
		var out, errs safeBuffer
		a := &app{Streams: &ui.Streams{Out: &out, Err: &errs, Width: 80, Now: time.Now},
			Environ: []string{"VSETRAIN_TOKEN=" + token}}
		c := newCmdServe(a)
		c.SetArgs(append([]string{checkpoint, "--data", data, "--listen", "0.0.0.0:0", "--no-cache", "--device", "cpu"},
			more...))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.ExecuteContext(ctx) }()
		var url []string
		for range 1000 {
			if url = regexp.MustCompile(`^answers at (http://127\.0\.0\.1:\d+)/\n$`).FindStringSubmatch(
				out.String()); url != nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if url == nil {
			t.Fatalf("%s: printed %q, %q", network, out.String(), errs.String())
		}
		for header, want := range map[string]int{"Bearer " + token: 200, "Bearer no": 401} {
			q := try.Get(http.NewRequest("POST", url[1]+"/v1/search",
				strings.NewReader(`{"query":"a rusty lantern","k":2}`)))(t)
			q.Header.Set("Content-Type", "application/json")
			q.Header.Set("Authorization", header)
			r := try.Get(http.DefaultClient.Do(q))(t)
			body, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err != nil || r.StatusCode != want || strings.Contains(string(body), `"rank":2`) != (want == 200) {
				t.Errorf("%s, %q: %d %v, %s", network, header, r.StatusCode, err, body)
			}
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", network, err)
		}
		if !strings.Contains(errs.String(), "path=/v1/search status=200") {
			t.Errorf("%s: log %q", network, errs.String())
		}
	}
}

// With --log json every line is JSON, from the first on. SIGHUP has the splits read anew, SIGTERM ends the server with
// 0.
func TestServeTold(t *testing.T) {
	hangups := make(chan os.Signal, 1) // a process that nohup started ignores them, and so would the server
	if hangup != nil {
		signal.Notify(hangups, hangup)
		defer signal.Stop(hangups)
	}
	dir := t.TempDir()
	try.Do(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "testdata", "torch", "vseinf"))))
	gallery := filepath.Join(dir, "data")
	try.Do(t, os.Remove(filepath.Join(gallery, "test_caps.txt")))
	var all safeBuffer
	a := &app{Streams: &ui.Streams{Out: &all, Err: &all, Width: 80, Now: time.Now}}
	c := newCmdServe(a)
	c.SetArgs([]string{filepath.Join(dir, "checkpoint.pth.tar"), "--data", gallery, "--listen", "0.0.0.0:0",
		"--no-token", "--no-cache", "--device", "cpu", "--log", "json"})
	done := make(chan error, 1)
	go func() { done <- c.ExecuteContext(t.Context()) }()
	wait := func(text string) {
		t.Helper()
		for range 3000 {
			if strings.Contains(all.String(), text) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("no %s in %s", text, all.String())
	}
	wait(`"msg":"ready"`)
	self := try.Get(os.FindProcess(os.Getpid()))(t)
	want := "encoded ready "
	if hangup != nil {
		ids := try.Get(os.ReadFile(filepath.Join(gallery, "test_ids.txt")))(t)
		first, _, _ := strings.Cut(string(ids), "\n")
		try.Do(t, data.Amend(gallery, "test", data.Change{Removed: []string{first}}, nil))
		try.Do(t, self.Signal(hangup))
		wait(`"msg":"reload","split":"test","images":5,"version":2,"embedded":0`)
		want += "reloading" + hangup.String() + " reload "
	}
	try.Do(t, self.Signal(syscall.SIGTERM))
	try.Do(t, <-done)
	said := []string{}
	for line := range strings.Lines(all.String()) {
		var l struct{ Msg, Signal string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		said = append(said, l.Msg+l.Signal)
	}
	if got := strings.Join(said[1:], " "); got != want+"stopping"+syscall.SIGTERM.String() {
		t.Errorf("%q", said)
	}
}
