package training_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/mlflow"
	"vsetrain/internal/run/records"
	"vsetrain/internal/run/tracking"
	"vsetrain/internal/run/training"
	"vsetrain/lab/runtest"
	"vsetrain/lab/try"
	"vsetrain/train"
)

// fakeMLflow answers as a tracking server does, and keeps what it is sent.
type fakeMLflow struct {
	mu       sync.Mutex
	url      string
	down     bool          // answers 503
	hold     chan struct{} // answers wait until it is closed; nil answers at once
	artifact string        // beginning of artifact URIs
	runs     map[string]*fakeRun
}

type fakeRun struct {
	name, status   string
	points         map[string]int // how often "key@step" was sent
	values         map[string]float64
	params, tags   map[string]string
	files          map[string]string
	deleted, ended bool
}

func newFakeMLflow(t *testing.T) *fakeMLflow {
	f := &fakeMLflow{runs: map[string]*fakeRun{}, artifact: "mlflow-artifacts:/1"}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

func (f *fakeMLflow) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *fakeMLflow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	hold := f.hold
	f.mu.Unlock()
	if hold != nil {
		<-hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/api/2.0/mlflow-artifacts/artifacts/1/"); ok && r.Method == "PUT" {
		id, file, _ := strings.Cut(name, "/")
		b, _ := io.ReadAll(r.Body)
		f.runs[id].files[file] = string(b)
		return
	}
	var in struct {
		Name    string `json:"run_name"`
		Run     string `json:"run_id"`
		Status  string
		End     int64 `json:"end_time"`
		Metrics []mlflow.Metric
		Params  []mlflow.Entry
		Tags    []mlflow.Entry
	}
	json.NewDecoder(r.Body).Decode(&in)
	answer := func(id string) {
		run := f.runs[id]
		stage := map[bool]string{false: "active", true: "deleted"}[run.deleted]
		fmt.Fprintf(w, `{"run": {"info": {"run_id": %q, "artifact_uri": "%s/%s", "lifecycle_stage": %q}}}`, id,
			f.artifact, id, stage)
	}
	switch strings.TrimPrefix(r.URL.Path, "/api/2.0/mlflow/") {
	case "experiments/get-by-name":
		io.WriteString(w, `{"experiment": {"experiment_id": "1", "lifecycle_stage": "active"}}`)
	case "runs/create":
		id := fmt.Sprintf("run%d", len(f.runs))
		f.runs[id] = &fakeRun{name: in.Name, status: "RUNNING", points: map[string]int{}, values: map[string]float64{},
			params: map[string]string{}, tags: map[string]string{}, files: map[string]string{}}
		answer(id)
	case "runs/get":
		answer(r.URL.Query().Get("run_id"))
	case "runs/update":
		f.runs[in.Run].status, f.runs[in.Run].ended = in.Status, in.End > 0
		io.WriteString(w, "{}")
	case "runs/log-batch":
		run := f.runs[in.Run]
		for _, m := range in.Metrics {
			key := fmt.Sprintf("%s@%d", m.Key, m.Step)
			run.points[key]++
			run.values[key] = m.Value
			if m.Timestamp == 0 {
				w.WriteHeader(http.StatusBadRequest)
			}
		}
		for _, p := range in.Params {
			run.params[p.Key] = p.Value
		}
		for _, p := range in.Tags {
			run.tags[p.Key] = p.Value
		}
		io.WriteString(w, "{}")
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// same compares the metrics of a run on the server with the log of its directory: each point once.
func (f *fakeMLflow) same(t *testing.T, id, dir string) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	run, want := f.runs[id], 0
	if run == nil {
		t.Fatalf("no run %s among %d", id, len(f.runs))
	}
	_, err := runfs.ReadLog(filepath.Join(dir, runfs.MetricsName), runfs.All, func(line []byte, _ int) (bool, error) {
		r, err := records.Read(line)
		for name, value := range r.Scalars {
			want++
			key := fmt.Sprintf("%s@%d", name, r.Step)
			if run.points[key] != 1 || run.values[key] != value {
				t.Errorf("%s: sent %d times, value %v, want %v", key, run.points[key], run.values[key], value)
			}
		}
		return true, err
	})
	if err != nil || len(run.points) != want || want == 0 {
		t.Errorf("%d points on the server, %d in the log; %v", len(run.points), want, err)
	}
}

func tracked(c *config.Config, dir string, w *runtest.Watcher, f *fakeMLflow) training.Request {
	r := runtest.Request(c, dir, w)
	r.Tracking = mlflow.Target{URL: f.url, Experiment: "e"}
	return r
}

// A run that is tracked arrives whole: settings, metrics with their steps, status, files.
func TestTracking(t *testing.T) {
	f, w := newFakeMLflow(t), &runtest.Watcher{}
	dir := filepath.Join(t.TempDir(), "night")
	if _, err := training.Train(t.Context(), tracked(runtest.TinyConfig(), dir, w, f)); err != nil ||
		len(w.Warnings) > 0 {
		t.Fatal(err, w.Warnings)
	}
	f.same(t, "run0", dir)
	run := f.runs["run0"]
	if run.name != "night" || run.status != "FINISHED" || !run.ended {
		t.Errorf("%s is %s, ended %v", run.name, run.status, run.ended)
	}
	if run.params["optim.lr"] != "0.005" || run.params["loss.name"] != "lseh" || run.params["run.dir"] != "" {
		t.Errorf("settings %v", run.params)
	}
	if !strings.HasPrefix(run.tags["vsetrain.device"], "cpu") {
		t.Errorf("tags %v", run.tags)
	}
	b, err := os.ReadFile(filepath.Join(dir, runfs.ConfigName))
	if err != nil || run.files[runfs.ConfigName] != string(b) {
		t.Errorf("files %v, %v", run.files, err)
	}
}

// A tracked run is the run that is not tracked.
func TestTrackingChangesNoResult(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	try.Get(training.Train(t.Context(), tracked(runtest.TinyConfig(), dir, &runtest.Watcher{}, newFakeMLflow(t))))(t)
	alone := runtest.Train(t, runtest.TinyConfig())
	runtest.SameTensors(t, runtest.Checkpoint(dir, runfs.LastName), runtest.Checkpoint(alone, runfs.LastName))
	if a, b := runtest.Metrics(t, dir), runtest.Metrics(t, alone); strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Error("the logs differ")
	}
}

// A server that is away for a while is told of once, and has everything at the end; one that hangs holds up no step.
func TestTrackingServerAway(t *testing.T) {
	f, w := newFakeMLflow(t), &runtest.Watcher{}
	f.set(true)
	dir := filepath.Join(t.TempDir(), "run")
	w.OnStep = func(i train.StepInfo) {
		if len(w.Warnings) > 0 {
			f.set(false)
		} else if i.Step > 5 {
			time.Sleep(50 * time.Millisecond) // until the failure is known; a second at most
		}
	}
	try.Get(training.Train(t.Context(), tracked(runtest.TinyConfig(), dir, w, f)))(t)
	if len(w.Warnings) != 1 || !strings.Contains(w.Warnings[0].Error(), "503 Service Unavailable; training continues") {
		t.Errorf("warnings %v", w.Warnings)
	}
	f.same(t, "run0", dir)

	f, w = newFakeMLflow(t), &runtest.Watcher{}
	f.hold = make(chan struct{})
	w.OnStep = func(i train.StepInfo) {
		if i.Step == 26 { // the last one, before any answer
			close(f.hold)
		}
	}
	dir = filepath.Join(t.TempDir(), "held")
	if _, err := training.Train(t.Context(), tracked(runtest.TinyConfig(), dir, w, f)); err != nil ||
		len(w.Warnings) > 0 {
		t.Fatal(err, w.Warnings)
	}
	f.same(t, "run0", dir)
}

// A server that never answers leaves a run that can be sent afterwards, once.
func TestTrackAfterwards(t *testing.T) {
	f, w := newFakeMLflow(t), &runtest.Watcher{}
	f.set(true)
	dir := filepath.Join(t.TempDir(), "run")
	try.Get(training.Train(t.Context(), tracked(runtest.TinyConfig(), dir, w, f)))(t)
	if n := len(w.Warnings); n == 0 || !strings.Contains(w.Warnings[n-1].Error(),
		"send the rest with vsetrain track "+dir+" --mlflow "+f.url) {
		t.Errorf("warnings %v", w.Warnings)
	}
	r := tracking.Request{Dir: dir, Target: mlflow.Target{URL: f.url, Experiment: "e"}, Status: mlflow.Finished,
		Weights: true}
	try.Refuses(tracking.Send(t.Context(), r))(t, "503")
	f.set(false)
	f.artifact = "s3://bucket" // and files, when the server has a proxy
	for i := range 3 {
		out, err := tracking.Send(t.Context(), r)
		if err != nil || out.Run != "run0" || out.Step != 26 || (out.NoFiles != nil) != (i == 0) {
			t.Fatalf("%+v, %v", out, err)
		}
		f.artifact = "mlflow-artifacts:/1"
	}
	f.same(t, "run0", dir)
	if f.runs["run0"].files["checkpoints/best.safetensors"] == "" {
		t.Error("no weights")
	}
	f.runs["run0"].deleted = true // by a person: the run is sent anew
	if out, err := tracking.Send(t.Context(), r); err != nil || out.Run != "run1" {
		t.Errorf("%+v, %v", out, err)
	}
	f.same(t, "run1", dir)

	held := try.Get(runfs.Open(dir, runfs.Owner{PID: 1, Host: "h"}))(t)
	defer held.Close()
	try.Refuses(tracking.Send(t.Context(), r))(t, "is being trained by process 1 on h")
	try.Refuses(tracking.Send(t.Context(), tracking.Request{Dir: t.TempDir(), Target: r.Target}))(t,
		"not a run directory")
}

// An interrupted run is continued on the server too: the steps that are done again are there once.
func TestTrackingResumes(t *testing.T) {
	f, w := newFakeMLflow(t), &runtest.Watcher{}
	dir := filepath.Join(t.TempDir(), "run")
	runtest.Interrupt(t, tracked(runtest.TinyConfig(), dir, w, f), 7)
	if f.runs["run0"].status != "KILLED" {
		t.Errorf("%s after the interruption", f.runs["run0"].status)
	}
	// As after a kill: the server has steps that the checkpoint does not.
	state := filepath.Join(dir, tracking.StateName)
	b, err := integrity.ReadSealed(state, 1<<16, "the state")
	try.Do(t, err)
	try.Do(t, integrity.WriteText(state, bytes.Replace(b, []byte(`"step": 7`), []byte(`"step": 9`), 1)))
	r := tracked(runtest.TinyConfig(), dir, &runtest.Watcher{}, f)
	runtest.Resume(t, r)
	run := f.runs["run0"]
	if len(f.runs) != 1 || run.status != "FINISHED" {
		t.Errorf("%d runs, the first %s", len(f.runs), run.status)
	}
	for step, want := range map[int]int{7: 1, 8: 0, 9: 0, 10: 1, 26: 1} {
		if got := run.points[fmt.Sprintf("train/loss@%d", step)]; got != want {
			t.Errorf("step %d was sent %d times, want %d", step, got, want)
		}
	}
	try.Do(t, os.WriteFile(state, []byte("{"), 0o666))
	_, err = tracking.Send(t.Context(), tracking.Request{Dir: dir, Target: r.Tracking})
	try.Fails(t, err, tracking.StateName, "remove the file to send the run as a new one")
}

// The real server, where there is one: VSETRAIN_MLFLOW names the program, or it is in the path.
func TestRealMLflow(t *testing.T) {
	program := os.Getenv("VSETRAIN_MLFLOW")
	if program == "" {
		var err error
		if program, err = exec.LookPath("mlflow"); err != nil {
			t.Skip("no mlflow program: install it with pip install mlflow, and name it with VSETRAIN_MLFLOW")
		}
	}
	l := try.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	home := t.TempDir()
	c := exec.CommandContext(t.Context(), program, "server", "--host", "127.0.0.1", "--port", port, "--workers", "1",
		"--backend-store-uri", "sqlite:///"+filepath.Join(home, "db"), "--artifacts-destination",
		filepath.Join(home, "artifacts"))
	c.Dir, c.Cancel, c.WaitDelay = home, func() error { return c.Process.Signal(os.Interrupt) }, 20*time.Second
	try.Do(t, c.Start())
	t.Cleanup(func() { c.Cancel(); c.Wait() })
	address := "http://127.0.0.1:" + port
	get := func(path string, q url.Values) (string, error) {
		a, err := http.Get(address + path + "?" + q.Encode())
		if err != nil {
			return "", err
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		return string(b), err
	}
	for range 600 { // it imports for a while
		if text, err := get("/health", nil); err == nil && text == "OK" {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	w := &runtest.Watcher{}
	dir := filepath.Join(t.TempDir(), "run")
	r := runtest.Request(runtest.TinyConfig(), dir, w)
	r.Tracking = mlflow.Target{URL: address, Experiment: "an experiment"}
	try.Get(training.Train(t.Context(), r))(t)
	// A server that is still importing may have missed the end.
	sent, err := tracking.Send(t.Context(), tracking.Request{Dir: dir, Target: r.Tracking, Status: mlflow.Finished,
		Weights: true})
	if err != nil || sent.NoFiles != nil {
		t.Fatalf("%+v, %v; during the training: %v", sent, err, w.Warnings)
	}
	run, err := get("/api/2.0/mlflow/runs/get", url.Values{"run_id": {sent.Run}})
	if err != nil || !strings.Contains(run, `"FINISHED"`) || !strings.Contains(run, `"optim.lr"`) {
		t.Errorf("%s, %v", run, err)
	}
	history, err := get("/api/2.0/mlflow/metrics/get-history", url.Values{"run_id": {sent.Run},
		"metric_key": {"train/loss"}})
	if n := strings.Count(history, `"key"`); err != nil || n != 26 {
		t.Errorf("%d points of the loss, want 26; %v", n, err)
	}
	if files, err := get("/api/2.0/mlflow/artifacts/list", url.Values{"run_id": {sent.Run}}); err != nil ||
		!strings.Contains(files, runfs.ConfigName) || !strings.Contains(files, runfs.CheckpointsName) {
		t.Errorf("files %s, %v", files, err)
	}
}
