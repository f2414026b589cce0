package mlflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vsetrain/lab/try"
)

// serve answers requests as a server would, and returns a client that signs in with a token.
func serve(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return try.Get(New(Target{URL: s.URL + "/base/", Experiment: "flickr", Token: "secret"}, time.Second))(t)
}

// An experiment that is not there is made; requests carry the token and keep the path of the server.
func TestExperiment(t *testing.T) {
	var calls []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls = append(calls, r.Method+" "+r.URL.RequestURI())
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("signed in with %q", got)
		}
		if r.Method == http.MethodGet {
			w.WriteHeader(404)
			io.WriteString(w, `{"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none"}`)
			return
		}
		io.WriteString(w, `{"experiment_id": "12"}`)
	})
	id, err := c.Experiment(t.Context())
	if id != "12" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	want := "GET /base/api/2.0/mlflow/experiments/get-by-name?experiment_name=flickr " +
		"POST /base/api/2.0/mlflow/experiments/create"
	if got := strings.Join(calls, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// What is sent goes out in parts that the server takes, complete and in order.
func TestMetricsInParts(t *testing.T) {
	var steps []int64
	var sizes []int
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Run     string `json:"run_id"`
			Metrics []Metric
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Run != "r" {
			t.Errorf("%+v, %v", in, err)
		}
		for _, m := range in.Metrics {
			steps = append(steps, m.Step)
		}
		sizes = append(sizes, len(in.Metrics))
		io.WriteString(w, "{}")
	})
	var all []Metric
	for i := range 2100 {
		all = append(all, Metric{Key: "loss", Step: int64(i)})
	}
	try.Do(t, c.LogMetrics(t.Context(), "r", all))
	for i, s := range steps {
		if s != int64(i) {
			t.Fatalf("metric %d is of step %d", i, s)
		}
	}
	if fmt.Sprint(sizes) != "[1000 1000 100]" {
		t.Errorf("parts of %v", sizes)
	}
}

// Each way to fail has its own words.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"refused": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "MLFLOW_TRACKING_TOKEN"},
		"proxy": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			io.WriteString(w, "<html>")
		}, "the server answers 502 Bad Gateway"},
		"another server": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
			"is not an MLflow server: it answers \"<html>\""},
		"an empty object": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") },
			"is not an MLflow server: it has no experiments"},
		"deleted": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"experiment": {"experiment_id": "1", "lifecycle_stage": "deleted"}}`)
		}, `the experiment "flickr" was deleted there; restore it`},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("x", maxAnswer+1))
		}, "more than 1048576 bytes"},
		"slow": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Second):
			}
		}, "no answer for 50ms"},
	} {
		client := serve(t, c.answer)
		if name == "slow" {
			client.http.Timeout = 50 * time.Millisecond
		}
		try.Refuses(client.Experiment(t.Context()))(t, c.want)
	}
}

// Files go to the proxy of the server; without one the error says what to do.
func TestPutFile(t *testing.T) {
	got := ""
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + string(b)
	})
	r := RunInfo{ArtifactURI: "mlflow-artifacts:/1/abc/artifacts"}
	try.Do(t, c.PutFile(t.Context(), r, "config.yaml", strings.NewReader("seed: 7")))
	if want := "PUT /base/api/2.0/mlflow-artifacts/artifacts/1/abc/artifacts/config.yaml seed: 7"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, uri := range []string{"/var/mlruns/1/abc", "s3://bucket/1", ""} {
		var none *NoProxyError
		if err := c.PutFile(t.Context(), RunInfo{ArtifactURI: uri}, "a", nil); !errors.As(err, &none) ||
			!strings.Contains(err.Error(), "--serve-artifacts") {
			t.Errorf("%q: %v", uri, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, good := range []string{"", "off", "http://127.0.0.1:5000", "https://mlflow.example/team/"} {
		if err := (&Options{MLflow: good}).Validate(); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, want := range map[string]string{"sqlite:///mlflow.db": "over http or https", "127.0.0.1:5000": "over http",
		"http://me:secret@host": "MLFLOW_TRACKING_USERNAME", "http://host/?a=1": "leave out"} {
		try.Fails(t, (&Options{MLflow: bad}).Validate(), want)
		if _, e := New(Target{URL: bad}, 0); e == nil {
			t.Errorf("%q: a client", bad)
		}
	}
}

// Whatever a server answers, the client returns, with an error or what it asked for, and asks no other address.
func FuzzAnswers(f *testing.F) {
	f.Add(200, `{"experiment":{"experiment_id":"1","lifecycle_stage":"active"}}`)
	f.Add(200, `{"run":{"info":{"run_id":"a","artifact_uri":"mlflow-artifacts:/x","lifecycle_stage":"deleted"}}}`)
	f.Add(404, `{"error_code":"RESOURCE_DOES_NOT_EXIST","message":"no"}`)
	f.Add(500, `<html>`)
	f.Add(302, ``)
	f.Fuzz(func(t *testing.T, status int, body string) {
		c, err := New(Target{URL: "http://127.0.0.1:9/base/", Experiment: "flickr", Token: "secret"}, time.Second)
		try.Do(t, err)
		asked := 0
		c.http.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if asked++; asked > 20 {
				t.Fatal("more than 20 requests")
			}
			if r.URL.Host != "127.0.0.1:9" {
				t.Fatalf("asks %s", r.URL)
			}
			return &http.Response{StatusCode: 100 + (status%500+500)%500, Header: http.Header{},
				Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
		})
		if id, err := c.Experiment(t.Context()); err == nil && id == "" {
			t.Errorf("an experiment without an id from %q", body)
		}
		if r, ok, err := c.FindRun(t.Context(), "run"); err == nil && ok && r.ID == "" {
			t.Errorf("a run without an id from %q", body)
		}
		_, err = c.CreateRun(t.Context(), "1", "name", time.Time{})
		if err == nil {
			err = c.PutFile(t.Context(), RunInfo{ArtifactURI: body}, "file", strings.NewReader("x"))
		}
		if err != nil && len(err.Error()) > 1000 && len(err.Error()) > len(body) {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// Requests that are given up and threads that share a client change no answer: each is that to its own question.
func TestOwnAnswers(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("run_id")
		n, _ := strconv.Atoi(id)
		time.Sleep(time.Duration(n%4) * time.Millisecond)
		fmt.Fprintf(w, `{"run": {"info": {"run_id": %q, "artifact_uri": "of %[1]s%s"}}}`, id,
			strings.Repeat("x", n%5000))
	})
	var answered atomic.Int64
	var all sync.WaitGroup
	for thread := range 4 {
		all.Go(func() {
			draw := rand.New(rand.NewPCG(9, uint64(thread)))
			for range 150 {
				ctx, stop := context.WithTimeout(t.Context(), time.Duration(draw.IntN(6000))*time.Microsecond)
				id := strconv.Itoa(draw.IntN(20000))
				r, ok, err := c.FindRun(ctx, id)
				switch {
				case err != nil && ctx.Err() == nil:
					t.Errorf("run %s: %v", id, err)
				case err == nil && (!ok || r.ID != id || strings.TrimRight(r.ArtifactURI, "x") != "of "+id):
					t.Errorf("run %s: %+v", id, r)
				case err == nil:
					answered.Add(1)
				}
				stop()
			}
		})
	}
	all.Wait()
	if n := answered.Load(); n == 0 || n == 600 {
		t.Errorf("%d of 600 were answered: nothing was tried", n)
	}
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"experiment": {"experiment_id": "3", "name": "another"}}`)
	})
	if id, err := other.Experiment(t.Context()); err == nil || !strings.HasSuffix(err.Error(), `with "another"`) {
		t.Errorf("%q, %v", id, err)
	}
}
