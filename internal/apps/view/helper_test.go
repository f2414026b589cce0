package view

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"vsetrain/data/synth"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/try"
	"vsetrain/train"
)

// world is a synthetic data set with pictures, runs a folder with two finished runs on it; both are made once.
var world, runs string

func TestMain(m *testing.M) { os.Exit(withRuns(func() int { defer closeBrowser(); return m.Run() })) }

func withRuns(run func() int) int {
	dir, err := os.MkdirTemp("", "view")
	if err == nil {
		defer os.RemoveAll(dir)
		world, runs = filepath.Join(dir, "world"), filepath.Join(dir, "runs")
		err = makeRuns()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return run()
}

func makeRuns() error {
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim, o.Images = 24, 8, 8, 3, 16, true
	if err := synth.Generate(world, o, nil); err != nil {
		return err
	}
	for name, lr := range map[string]float64{"one": 5e-3, "sub/two": 1e-3} {
		c := tiny()
		c.Optim.LR = lr
		if err := trainTo(context.Background(), c, filepath.Join(runs, name), nil); err != nil {
			return err
		}
	}
	return nil
}

// tiny trains VSE++ for two epochs of 8 batches.
func tiny() *config.Config {
	c := config.Default()
	c.Data.Dir = world
	c.Model.EmbedDim, c.Model.WordDim = 16, 8
	c.Train.Epochs, c.Train.Batch, c.Train.ValStep, c.Train.LogStep = 2, 16, 4, 1
	c.Device.Threads = 1
	return &c
}

// observer calls a function at each step.
type observer struct {
	training.Unobserved
	step func(train.StepInfo)
}

func (o observer) Step(i train.StepInfo) {
	if o.step != nil {
		o.step(i)
	}
}

func trainTo(ctx context.Context, c *config.Config, dir string, step func(train.StepInfo)) error {
	_, err := training.Train(ctx, training.Request{Config: c, RunDir: dir, Now: time.Now,
		Observer: observer{step: step},
		Env:      runfs.Env{Host: "here", PID: os.Getpid(), Command: []string{"vsetrain", "train"}}})
	return err
}

// site is a server for a test.
type site struct {
	t *testing.T
	*httptest.Server
	server *Server
}

// open serves what the options say.
func open(t *testing.T, o Options) *site {
	t.Helper()
	s := try.Get(New(o))(t)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		h.Close()
		s.Close()
	})
	return &site{t, h, s}
}

// ask sends a request and returns the answer with its text.
func (s *site) ask(method, path string, form url.Values, header ...string) (*http.Response, string) {
	s.t.Helper()
	r := try.Get(http.NewRequest(method, s.URL+path, strings.NewReader(form.Encode())))(s.t)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer := try.Get(client.Do(r))(s.t)
	defer answer.Body.Close()
	b := try.Get(io.ReadAll(answer.Body))(s.t)
	return answer, string(b)
}

// get returns a page, which must be there.
func (s *site) get(path string) string {
	s.t.Helper()
	r, text := s.ask("GET", path, nil)
	if r.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s\n%s", path, r.Status, text)
	}
	if m := nameless.FindString(text); m != "" {
		s.t.Errorf("%s has a head of a table without a name: %s", path, m)
	}
	return text
}

var nameless = regexp.MustCompile(`<th[^>]*></th>`)

// has checks that a page contains texts, and that it lacks those with a ! in front.
func (s *site) has(path string, want ...string) string {
	s.t.Helper()
	text := s.get(path)
	s.contains(path, text, want...)
	return text
}

func (s *site) contains(what, text string, want ...string) {
	s.t.Helper()
	for _, w := range want {
		if not, lacks := strings.CutPrefix(w, "!"); strings.Contains(text, not) == lacks {
			s.t.Errorf("%s: found %t, expected %q", what, lacks, w)
		}
	}
}

// status checks the status of a page, and its text as has does.
func (s *site) status(path string, status int, want ...string) {
	s.t.Helper()
	r, text := s.ask("GET", path, nil)
	if r.StatusCode != status {
		s.t.Errorf("%s: %s, expected %d", path, r.Status, status)
	}
	s.contains(path, text, want...)
}

// load opens a network and waits until its queries are ranked.
func (s *site) load(key networkKey) {
	s.t.Helper()
	s.loadUntil(key, func(p progressOf) bool { return p.Ranked })
}

// loadOnly opens a network whose queries are not ranked.
func (s *site) loadOnly(key networkKey) {
	s.t.Helper()
	s.loadUntil(key, func(p progressOf) bool { return !p.Loading })
}

func (s *site) loadUntil(key networkKey, done func(progressOf) bool) {
	s.t.Helper()
	r, text := s.ask("POST", "/load", url.Values{"r": {key.Run}, "ck": {key.Checkpoint}, "split": {key.Split}})
	if r.StatusCode != http.StatusSeeOther {
		s.t.Fatalf("load: %s %s", r.Status, text)
	}
	for range 600 {
		if p, _ := s.server.networks.state(key); p.Err != "" {
			s.t.Fatal(p.Err)
		} else if done(p) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Fatal("not open after 12 s")
}

// fakeRun writes a run directory by hand.
func fakeRun(t *testing.T, dir string, c *config.Config, metrics string) {
	t.Helper()
	write(t, filepath.Join(dir, runfs.ConfigName), string(config.Marshal(c)))
	if metrics != "" {
		write(t, filepath.Join(dir, runfs.MetricsName), metrics)
	}
}

// write writes a file and makes its folder.
func write(t *testing.T, path, text string) {
	t.Helper()
	try.Do(t, os.MkdirAll(filepath.Dir(path), 0o777))
	try.Do(t, os.WriteFile(path, []byte(text), 0o666))
}
