package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"vsetrain/cmd/vsetrain/internal/ui"
	"vsetrain/data"
	"vsetrain/lab/try"
)

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

// serving is a command that serves until it is told to stop.
type serving struct {
	safeBuffer        // what it prints on both outputs
	url        string // its address, as it is printed
	cancel     func()
	done       chan error
}

// answering carries out such a command and returns when it has printed its address.
func answering(t *testing.T, environ []string, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{cancel: cancel, done: make(chan error, 1)}
	root := newCmdRoot(&app{Streams: &ui.Streams{Out: s, Err: s, Width: 80, Now: time.Now}, Environ: environ})
	root.SetArgs(args)
	go func() { s.done <- root.ExecuteContext(ctx) }()
	for range 6000 {
		url := regexp.MustCompile(`(http://[^\s"]+)[\s"]`).FindStringSubmatch(s.String())
		if url != nil {
			s.url = url[1]
			return s
		}
		if len(s.done) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	t.Fatalf("%s: %v; printed %s", args, <-s.done, s)
	return nil
}

// stop interrupts the command, which ends without an error.
func (s *serving) stop(t *testing.T) {
	t.Helper()
	s.cancel()
	try.Do(t, <-s.done)
}

// The command answers until it is interrupted, on an address that it prints: an embedder, and a pair scorer with a
// shortlist. The token of the environment is asked for.
func TestServe(t *testing.T) {
	fixture := func(network string) (checkpoint, data string) {
		dir := filepath.Join("..", "..", "testdata", "torch", network)
		return filepath.Join(dir, "checkpoint.pth.tar"), filepath.Join(dir, "data")
	}
	const token = "0123456789abcdef"
	short, _ := fixture("vsepp")
	for network, more := range map[string][]string{"vseinf": nil, "vsepp": {"--precision", "fp32"},
		"gsmn": {"--shortlist", short, "--shortlist-size", "3"}} {
		checkpoint, data := fixture(network)
		s := answering(t, []string{"VSETRAIN_TOKEN=" + token}, append([]string{"serve", checkpoint,
			"--data", data, "--listen", "0.0.0.0:0", "--no-cache", "--device", "cpu"}, more...)...)
		for header, want := range map[string]int{"Bearer " + token: 200, "Bearer no": 401} {
			q := try.Get(http.NewRequest("POST", s.url+"v1/search",
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
		if s.stop(t); !strings.Contains(s.String(), "path=/v1/search status=200") {
			t.Errorf("%s: log %q", network, s)
		}
		why := map[string]string{"vseinf": "data has no split dev", "vsepp": "chosen by the user",
			"gsmn": "auto takes bf16 only where"}[network]
		if said := regexp.MustCompile(`6 images; queries in fp32 \(.*` + why + `.*\); ready after `); !said.MatchString(
			s.String()) {
			t.Errorf("%s: %q does not say %s", network, s, why)
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
	s := answering(t, nil, "serve", filepath.Join(dir, "checkpoint.pth.tar"), "--data", gallery, "--listen",
		"0.0.0.0:0", "--no-token", "--no-cache", "--device", "cpu", "--log", "json")
	wait := func(text string) {
		t.Helper()
		for range 3000 {
			if strings.Contains(s.String(), text) {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("no %s in %s", text, s.String())
	}
	self := try.Get(os.FindProcess(os.Getpid()))(t)
	want := "encoded ready "
	if hangup != nil {
		ids := try.Get(os.ReadFile(filepath.Join(gallery, "test_ids.txt")))(t)
		first, _, _ := strings.Cut(string(ids), "\n")
		try.Do(t, data.Amend(t.Context(), gallery, "test", data.Change{Removed: []string{first}}, nil))
		try.Do(t, self.Signal(hangup))
		wait(`"msg":"reload","split":"test","images":5,"version":2,"embedded":0`)
		want += "reloading" + hangup.String() + " reload "
	}
	try.Do(t, self.Signal(syscall.SIGTERM))
	try.Do(t, <-s.done)
	said := []string{}
	for line := range strings.Lines(s.String()) {
		var l struct{ Msg, Signal string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		said = append(said, l.Msg+l.Signal)
	}
	if !strings.HasPrefix(said[1], "there is no record that the features of ") {
		t.Errorf("%q", said[1])
	}
	if got := strings.Join(said[2:], " "); got != want+"stopping"+syscall.SIGTERM.String() {
		t.Errorf("%q", said)
	}
}
