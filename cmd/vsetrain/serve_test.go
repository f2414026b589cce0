package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"vsetrain/data"
	"vsetrain/internal/run/config"
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
	a := newApp(s, s)
	a.Environ = environ
	root := newCmdRoot(a)
	root.SetArgs(args)
	go func() { s.done <- root.ExecuteContext(ctx) }()
	until(t, strings.Join(args, " ")+" answers or ends", func() bool {
		if url := regexp.MustCompile(`(http://[^\s"]+)[\s"]`).FindStringSubmatch(s.String()); url != nil {
			s.url = url[1]
		}
		return s.url != "" || len(s.done) > 0
	})
	if s.url == "" {
		t.Fatalf("%s: %v; printed %s", args, <-s.done, s)
	}
	return s
}

// post sends a request with a token and returns status and body of the answer.
func post(url, token string, body []byte) (int, []byte, error) {
	q, err := http.NewRequest("POST", url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Authorization", "Bearer "+token)
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, nil, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return r.StatusCode, b, err
}

// get returns the body of an address that answers.
func get(t *testing.T, url string) string {
	t.Helper()
	r := try.Get(http.Get(url))(t)
	defer r.Body.Close()
	return string(try.Get(io.ReadAll(r.Body))(t))
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
	const token, fixtures = "0123456789abcdef", "../../testdata/torch/"
	for network, more := range map[string][]string{"vseinf": nil, "vsepp": {"--precision", "fp32"},
		"gsmn": {"--shortlist", fixtures + "vsepp/checkpoint.pth.tar", "--shortlist-size", "3"}} {
		s := answering(t, []string{"VSETRAIN_TOKEN=" + token}, append([]string{"serve",
			fixtures + network + "/checkpoint.pth.tar", "--data", fixtures + network + "/data", "--listen", "0.0.0.0:0",
			"--no-cache", "--device", "cpu"}, more...)...)
		for header, want := range map[string]int{token: 200, "no": 401} {
			status, body, err := post(s.url+"v1/search", header, []byte(`{"query":"a rusty lantern","k":2}`))
			if err != nil || status != want || strings.Contains(string(body), `"rank":2`) != (want == 200) {
				t.Errorf("%s, %q: %d %v, %s", network, header, status, err, body)
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
	self := try.Get(os.FindProcess(os.Getpid()))(t)
	want := "encoded ready "
	if hangup != nil {
		ids := try.Get(os.ReadFile(filepath.Join(gallery, "test_ids.txt")))(t)
		first, _, _ := strings.Cut(string(ids), "\n")
		try.Do(t, data.Amend(t.Context(), gallery, "test", data.Change{Removed: []string{first}}, nil))
		try.Do(t, self.Signal(hangup))
		const reloaded = `"msg":"reload","split":"test","images":5,"version":2,"embedded":0`
		until(t, reloaded, func() bool { return strings.Contains(s.String(), reloaded) })
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

// A data set without a vocabulary is trained on and searched; a second call takes the run over. Without a data set a
// world is made.
func TestQuickstart(t *testing.T) {
	dir := t.TempDir()
	world, work := filepath.Join(dir, "a world"), filepath.Join(dir, "work")
	mustRun(t, dir, "data synth --train 40 --dev 12 --test 12 --regions 3 --dim 16 --images", world)
	try.Do(t, os.Remove(filepath.Join(world, "vocab.json")))
	for _, call := range []struct{ want, not string }{{"train --config demo", "earlier call"},
		{"exists from an earlier call", "train --config demo"}} {
		s := answering(t, nil, "quickstart", world, "--work", work, "--no-open", "--listen", "127.0.0.1:0")
		if page := get(t, s.url); !strings.Contains(page, "must be encoded") {
			t.Error(page)
		}
		s.stop(t)
		if text := s.String(); !strings.Contains(text, call.want) || strings.Contains(text, call.not) {
			t.Errorf("%s\nwants %q and not %q", text, call.want, call.not)
		}
	}
}
