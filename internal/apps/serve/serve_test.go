package serve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"vsetrain/internal/apps/search"
	"vsetrain/internal/apps/web"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/system/bind"
	"vsetrain/lab/try"
)

// ServeHTTP answers without a connection.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.site.ServeHTTP(w, r) }

// fixture opens what a reference repository trained.
func fixture(t *testing.T, network string) *search.Index {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "testdata", "torch", network)
	o := search.Options{Checkpoints: []string{filepath.Join(dir, "checkpoint.pth.tar")},
		Data:   filepath.Join(dir, "data"),
		Device: device.DefaultOptions()}
	o.Device.Kind, o.Device.Threads = "cpu", 2
	x := try.Get(search.Open(o))(t)
	t.Cleanup(func() { x.Close() })
	return x
}

// ready returns a server that answers from searchers; the first option's split is test where it names none.
func readyServer(t *testing.T, o Options, searchers map[string]Searcher) *Server {
	t.Helper()
	if len(o.Splits) == 0 {
		o.Splits = []string{"test"}
	}
	s := try.Get(New(o))(t)
	try.Do(t, s.start(Opened{Searchers: searchers}))
	t.Cleanup(func() {
		for _, h := range s.ready.Load().shelves {
			h.now.batcher.close()
		}
	})
	return s
}

// do sends a request to a handler. headers are name: value.
func do(h http.Handler, method, path, body string, headers ...string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func methodOf(path string) string {
	if strings.HasPrefix(path, "/v1/") && path != "/v1/info" {
		return "POST"
	}
	return "GET"
}

// ask sends a request and returns the answer and its status.
func ask[T any](t *testing.T, s *Server, path, body string, headers ...string) (T, int) {
	t.Helper()
	r := do(s, methodOf(path), path, body, headers...)
	return read[T](t, s, path, r), r.StatusCode
}

// hasMetrics wants lines in the metrics.
func hasMetrics(t *testing.T, s *Server, lines ...string) {
	t.Helper()
	b := try.Get(io.ReadAll(do(s, "GET", "/metrics", "").Body))(t)
	for _, line := range lines {
		if !strings.Contains(string(b), line) {
			t.Errorf("metrics lack %q:\n%s", line, b)
		}
	}
}

// read decodes a body and checks it against its schema in the description.
func read[T any](t *testing.T, s *Server, path string, r *http.Response) (to T) {
	t.Helper()
	b := try.Get(io.ReadAll(r.Body))(t)
	if err := json.Unmarshal(b, &to); err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	c := jsonschema.NewCompiler()
	var whole any
	try.Do(t, json.Unmarshal(s.Description(), &whole))
	try.Do(t, c.AddResource("file:///openapi.json", whole))
	at := fmt.Sprintf("file:///openapi.json#/paths/%s/%s/responses/%d/content/application~1json/schema",
		strings.ReplaceAll(path, "/", "~1"), strings.ToLower(methodOf(path)), r.StatusCode)
	schema, err := c.Compile(at)
	if err != nil {
		t.Fatalf("status %d is not described: %v; the body is %s", r.StatusCode, err, b)
	}
	var body any
	try.Do(t, json.Unmarshal(b, &body))
	if err := schema.Validate(body); err != nil {
		t.Errorf("%s is not as described: %v", b, err)
	}
	return to
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b := try.Get(json.Marshal(v))(t)
	return string(b)
}

// choosing is a Searcher that embeds queries in another precision than the rest.
type choosing struct{ Searcher }

func (c choosing) Info() search.Info {
	i, change := c.Searcher.Info(), 0.03
	i.Query = search.QueryPrecision{Name: "bf16", Change: &change, Why: "measured"}
	return i
}

// A caption, and its embedding in either encoding, find what search finds.
func TestSearchAndEmbed(t *testing.T) {
	x := fixture(t, "vseinf")
	s := readyServer(t, Options{Splits: []string{"test", "other"}}, map[string]Searcher{"test": x,
		"other": choosing{x}})
	const query = "A rusty lantern rests near the zyzzyva."
	want := try.Get(x.Text(t.Context(), query, 4))(t)
	check := func(body string) SearchAnswer {
		t.Helper()
		got, status := ask[SearchAnswer](t, s, "/v1/search", body)
		if status != 200 || len(got.Hits) != 4 || got.Scored != 6 {
			t.Fatalf("%s: %d, %+v", body, status, got)
		}
		for i, h := range want.Hits {
			image := x.Image(h.Index)
			if g := got.Hits[i]; g.Image != h.Index || g.Score != h.Score || g.Rank != i+1 || g.ID != image.ID ||
				!slices.Equal(g.Captions, image.Captions[:len(g.Captions)]) {
				t.Errorf("hit %d is %+v, want %+v", i, g, h)
			}
		}
		return got
	}
	text := check(`{"query":"` + query + `","k":4,"captions":2}`)
	if !slices.Equal(text.Unknown, []string{"zyzzyva"}) || len(text.Hits[0].Captions) != 2 || text.Split != "test" {
		t.Errorf("%+v", text)
	}
	if got := check(`{"query":"` + query + `","k":4,"split":"other","vector":null}`); got.Split != "other" {
		t.Errorf("%+v", got)
	}
	for _, encoding := range []string{"float", "base64"} {
		got, status := ask[EmbedAnswer](t, s, "/v1/embed", `{"captions":["a turtle","`+query+`"],"encoding":"`+
			encoding+`"}`)
		if status != 200 || got.Dim != 16 || len(got.Embeddings) != 2 || len(got.Unknown) != 2 {
			t.Fatalf("%d, %+v", status, got)
		}
		check(`{"k":4,"vector":` + marshal(t, got.Embeddings[1]) + `}`)
		got.Embeddings[1].packed = encoding == "float" // the other way round
		check(`{"k":4,"vector":` + marshal(t, got.Embeddings[1]) + `}`)
	}
	info, _ := ask[InfoAnswer](t, s, "/v1/info", "")
	if info.Network != "vseinf" || !info.Embeds || info.Dim != 16 || len(info.Splits) != 2 ||
		info.Splits[1].Name != "other" || info.Splits[1].Images != 6 || info.Splits[1].Captions != 30 ||
		info.Limits.MaxK != 1000 {
		t.Errorf("%+v", info)
	}
	if a, b := info.Splits[0], info.Splits[1]; a.Precision != "fp32" || a.Why != "chosen by the user" ||
		a.Change != nil || b.Precision != "bf16" || b.Why != "measured" || b.Change == nil || *b.Change != 0.03 {
		t.Errorf("%+v", info.Splits)
	}
	image := make([]float32, info.Regions*info.Feature)
	for i := range image {
		image[i] = float32(math.Sin(float64(i)))
	}
	one := try.Get(x.ImageRows(t.Context(), image))(t)
	for _, packed := range []bool{true, false} {
		got, status := ask[EmbedAnswer](t, s, "/v1/embed", `{"images":[`+marshal(t, FloatArray{image, packed})+`]}`)
		if status != 200 || !slices.Equal(got.Embeddings[0].Values, one) {
			t.Errorf("%d, %+v", status, got)
		}
	}
}

// Each wrong request has its status, its code, and a message that names what was expected.
func TestRefusals(t *testing.T) {
	x := fixture(t, "vseinf")
	s := readyServer(t, Options{Limits: Limits{MaxK: 5, MaxItems: 2, MaxBody: 4000}}, map[string]Searcher{"test": x})
	nan := base64.StdEncoding.EncodeToString(binary.LittleEndian.AppendUint32(nil,
		math.Float32bits(float32(math.NaN()))))
	long := strings.Repeat("1,", 2000)
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		code, message      string
	}{
		{"POST", "/v1/search", `{`, nil, 400, "bad_request", "the body ends within its object"},
		{"POST", "/v1/search", ``, nil, 400, "bad_request", "the body ends within its object"},
		{"POST", "/v1/search", `[]`, nil, 400, "bad_request", "expected a JSON object"},
		{"POST", "/v1/search", `null`, nil, 400, "bad_request", "expected a JSON object"},
		{"POST", "/v1/search", `{"query":"dog"} {}`, nil, 400, "bad_request", "more after its end"},
		{"POST", "/v1/search", `{"query":"dog","kk":3}`, nil, 400, "bad_request",
			`unknown key "kk"; expected query, vector, picture, k, split, captions; did you mean k?`},
		{"POST", "/v1/search", `{"query":3}`, nil, 400, "bad_request", "query: expected a string, found 3"},
		{"POST", "/v1/search", `{"k":1}`, nil, 400, "bad_request", "expected query, vector or picture"},
		{"POST", "/v1/search", `{"query":"dog","vector":[1]}`, nil, 400, "bad_request",
			"expected query, vector or picture"},
		{"POST", "/v1/search", `{"query":"dog","k":0}`, nil, 400, "bad_request", "k: expected 1 to 5, found 0"},
		{"POST", "/v1/search", `{"query":"dog","k":6}`, nil, 400, "bad_request", "k: expected 1 to 5, found 6"},
		{"POST", "/v1/search", `{"query":"dog","captions":-1}`, nil, 400, "bad_request", "captions: expected 0 to"},
		{"POST", "/v1/search", `{"query":"dog","split":"dev"}`, nil, 400, "bad_request",
			`expected one of test, found "dev"`},
		{"POST", "/v1/search", `{"vector":[1,null]}`, nil, 400, "bad_request", "expected a list of numbers"},
		{"POST", "/v1/search", `{"vector":[]}`, nil, 400, "bad_request", "expected numbers"},
		{"POST", "/v1/search", `{"vector":[1e99]}`, nil, 400, "bad_request", "a number 1e99 does not fit"},
		{"POST", "/v1/search", `{"vector":"AAAA"}`, nil, 400, "bad_request", "four are a value"},
		{"POST", "/v1/search", `{"vector":"?"}`, nil, 400, "bad_request", "in base64"},
		{"POST", "/v1/search", `{"vector":"` + nan + `"}`, nil, 400, "bad_request", "expected finite numbers"},
		{"POST", "/v1/search", `{"vector":[1,2]}`, nil, 422, "unprocessable",
			"a vector of 2 values; the embeddings of"},
		{"POST", "/v1/search", `{"query":"zyzzyva"}`, nil, 422, "unprocessable", "no word is in the vocabulary"},
		{"POST", "/v1/search", `{"query":" "}`, nil, 422, "unprocessable", "has no words"},
		{"POST", "/v1/search", `{"query":"dog"}`, []string{"Content-Type: text/plain"}, 415, "media_type",
			"application/json"},
		{"POST", "/v1/embed", `{}`, nil, 400, "bad_request", "expected captions, images or pictures"},
		{"POST", "/v1/embed", `{"captions":["a","a","a"]}`, nil, 400, "bad_request",
			"captions: expected 1 to 2, found 3"},
		{"POST", "/v1/embed", `{"captions":["turtle"],"encoding":"hex"}`, nil, 400, "bad_request",
			"one of float, base64, found"},
		{"POST", "/v1/embed", `{"images":[[1,2]]}`, nil, 400, "bad_request", "image 0: expected 36 regions of 8"},
		{"POST", "/v1/embed", `{"images":[[` + long + `1]]}`, nil, 413, "too_large", "more than 4000 bytes"},
		{"POST", "/v1/embed", `{"captions":["zyzzyva"]}`, nil, 422, "unprocessable", "no word is in the vocabulary"},
		{"GET", "/v1/search", ``, nil, 405, "method_not_allowed", "expected POST"},
		{"DELETE", "/healthz", ``, nil, 405, "method_not_allowed", "expected GET"},
		{"GET", "/nothing", ``, nil, 404, "not_found", "/openapi.json"},
		{"GET", "/healthz", ``, []string{"Host: evil.example.org"}, 421, "host", "--allow-host"},
	} {
		r := do(s, c.method, c.path, c.body, append(c.headers, "X-Request-Id: 7")...)
		if id := r.Header.Get("X-Request-Id"); id != "7" {
			t.Errorf("%s %s: the answer has the number %q", c.method, c.path, id)
		}
		var got ErrorAnswer
		if r.StatusCode == 404 || r.StatusCode == 405 {
			try.Do(t, json.NewDecoder(r.Body).Decode(&got))
		} else {
			got = read[ErrorAnswer](t, s, c.path, r)
		}
		if r.StatusCode != c.status || got.Error.Code != c.code || !strings.Contains(got.Error.Message, c.message) {
			t.Errorf("%s %s %.60s: %d %+v, want %d %s %q", c.method, c.path, c.body, r.StatusCode, got.Error, c.status,
				c.code, c.message)
		}
	}
	chunked := httptest.NewRequest("POST", "/v1/search", io.MultiReader(strings.NewReader(`{"query":"`),
		strings.NewReader(strings.Repeat("dog ", searchBody/4)), strings.NewReader(`"}`)))
	chunked.Host, chunked.ContentLength = "localhost", -1
	chunked.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, chunked); w.Code != 413 {
		t.Errorf("a body without length that is too large: %d", w.Code)
	}
	pairs := readyServer(t, Options{}, map[string]Searcher{"test": fixture(t, "gsmn")})
	if got, status := ask[ErrorAnswer](t, pairs, "/v1/embed", `{"captions":["a dog"]}`); status != 422 ||
		got.Error.Code != "no_embedding" {
		t.Errorf("a pair scorer embeds: %d %+v", status, got)
	}
	if info, _ := ask[InfoAnswer](t, pairs, "/v1/info", ""); info.Embeds || info.Dim != 0 {
		t.Errorf("%+v", info)
	}
}

// With a token nothing but the state and the description is told without it, under any host name.
func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	s := readyServer(t, Options{Token: token}, map[string]Searcher{"test": &stub{}})
	for path, open := range map[string]bool{"/healthz": true, "/openapi.json": true, "/v1/info": false,
		"/metrics": false,
		"/nothing": false, "/v1/search": false} {
		method := "GET"
		if path == "/v1/search" {
			method = "POST"
		}
		for header, right := range map[string]bool{"Authorization: Bearer " + token: true,
			"Authorization: bearer " + token: true, "X-None: 1": false, "Authorization: Bearer " + token + "0": false,
			"Authorization: Bearer": false, "Authorization: Basic " + token: false} {
			r := do(s, method, path, `{"query":"a"}`, header, "Host: search.example.org")
			if got := r.StatusCode != 401; got != (open || right) {
				t.Errorf("%s with %q: %d", path, header, r.StatusCode)
			}
			if r.StatusCode == 401 && r.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %v", path, r.Header)
			}
		}
	}
	dir := t.TempDir()
	for text, want := range map[string]string{token + "\n": "", "": "expected one line", "short": "at least 16",
		"0123456789 abcdef0": "one word", strings.Repeat("x", 5000): "expected one line"} {
		path := filepath.Join(dir, "token")
		try.Do(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := web.ReadToken(path)
		if want == "" && (err != nil || got != token) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("token file %.20q: %q, %v", text, got, err)
		}
	}
}

// stub answers after its gate opens, and counts.
type stub struct {
	words chan struct{} // what the query "long" waits for while it is tokenised
	gate  chan struct{} // nil is open
	fault any           // what it panics with
	err   error         // of every query
	mu    sync.Mutex
	sizes []int // of the batches
}

func (s *stub) Tokenise(q search.Query) (search.Query, error) {
	if q.Text == "long" {
		<-s.words
	}
	return q, nil
}

func (s *stub) Batch(_ context.Context, queries []search.Query) []search.Result {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(queries))
	s.mu.Unlock()
	if s.gate != nil {
		<-s.gate
	}
	if s.fault != nil {
		panic(s.fault)
	}
	results := make([]search.Result, len(queries))
	for i := range results {
		results[i].Err = s.err
	}
	return results
}

func (s *stub) CaptionRows(_ context.Context, captions []string) ([]float32, [][]string, error) {
	if s.gate != nil {
		<-s.gate
	}
	return make([]float32, len(captions)), make([][]string, len(captions)), nil
}
func (s *stub) ImageRows(context.Context, []float32) ([]float32, error) {
	return nil, errors.New("none")
}
func (s *stub) Image(int) search.Image     { return search.Image{} }
func (s *stub) Info() search.Info          { return search.Info{} }
func (s *stub) Close() error               { return nil }
func (s *stub) Dims() (search.Dims, error) { return search.Dims{Embedding: 1}, nil }

// Queries wait for others as long as the window is open, and not when there are as many as before; so one that is
// alone, as the one before was, does not wait.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &stub{gate: make(chan struct{})}
		s := readyServer(t, Options{Window: time.Millisecond}, map[string]Searcher{"test": x})
		var asked sync.WaitGroup
		ask := func(n int) {
			for range n {
				asked.Go(func() {
					if r := do(s, "POST", "/v1/search", `{"query":"dog"}`); r.StatusCode != 200 {
						t.Errorf("status %d", r.StatusCode)
					}
				})
			}
		}
		took := func() time.Duration {
			start := time.Now()
			ask(1)
			asked.Wait()
			return time.Since(start)
		}
		ask(1)
		synctest.Wait()
		ask(3)
		synctest.Wait()
		close(x.gate)
		asked.Wait()
		for range 2 {
			ask(1)
			time.Sleep(400 * time.Microsecond)
		}
		if got := took(); got != 0 {
			t.Errorf("the third of three waited for %v", got)
		}
		if !slices.Equal(x.sizes, []int{1, 3, 3}) {
			t.Errorf("batches of %v, want 1, 3 and 3", x.sizes)
		}
		for _, want := range []time.Duration{time.Millisecond, 0, 0} {
			if got := took(); got != want {
				t.Errorf("a query alone took %v, want %v", got, want)
			}
		}
	})
}

// Clients that ask again after different pauses, up to twice the window, stay together: who comes too late would wait
// for two batches.
func TestClientsStayTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, rounds = 20, 20
		x := &timed{batch: 12 * time.Millisecond}
		s := readyServer(t, Options{Window: 2 * time.Millisecond}, map[string]Searcher{"test": x})
		l := &load{statuses: map[int]int{}}
		var asked sync.WaitGroup
		for c := range clients {
			asked.Go(func() {
				for round := range rounds {
					time.Sleep(time.Duration((c+7*round)%clients) * 200 * time.Microsecond)
					l.ask(s, strings.NewReader(short))
				}
			})
		}
		asked.Wait()
		slices.Sort(l.times)
		if median := l.times[len(l.times)/2]; median > 16*time.Millisecond || len(x.sizes) > rounds+2 {
			t.Errorf("median %v, batches of %v", median, x.sizes)
		}
	})
}

// Queries that arrive while others are answered are answered together; beyond the queue they are refused; a request
// that waits too long is told so.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &stub{gate: make(chan struct{})}
		s := readyServer(t, Options{Limits: Limits{Queue: 20, Timeout: time.Minute}, Window: time.Millisecond},
			map[string]Searcher{"test": x})
		statuses := make(chan int, 100)
		ask := func(n int) {
			for range n {
				go func() { statuses <- do(s, "POST", "/v1/search", `{"query":"dog"}`).StatusCode }()
			}
		}
		count := func(n int) map[int]int {
			all := map[int]int{}
			for range n {
				all[<-statuses]++
			}
			return all
		}
		ask(1)
		time.Sleep(time.Second) // it is being answered, alone
		ask(29)
		if got := count(10); got[429] != 10 {
			t.Errorf("beyond the queue: %v", got)
		}
		synctest.Wait()
		close(x.gate)
		if got := count(20); got[200] != 20 {
			t.Errorf("in the queue: %v", got)
		}
		if !slices.Equal(x.sizes, []int{1, 19}) {
			t.Errorf("batches of %v, want 1 and 19", x.sizes)
		}
		x.gate = make(chan struct{})
		ask(1)
		start := time.Now()
		if got := count(1); got[504] != 1 || time.Since(start) != time.Minute {
			t.Errorf("after %v: %v", time.Since(start), got)
		}
		ask(4) // they wait after the one that is gone
		if got := count(4); got[504] != 4 {
			t.Errorf("behind it: %v", got)
		}
		close(x.gate)
		time.Sleep(time.Second)
		synctest.Wait()
		if !slices.Equal(x.sizes, []int{1, 19, 1}) {
			t.Errorf("batches of %v: requests that are gone are answered", x.sizes)
		}
		ask(100)
		if got := count(100); got[200]+got[429] != 100 || got[200] < 20 {
			t.Errorf("many: %v", got)
		}
		hasMetrics(t, s, `vsetrain_requests_total{route="/v1/search",status="504"} 5`,
			"vsetrain_requests_in_progress 1\n", `vsetrain_request_seconds_bucket{le="+Inf"} `)
	})
}

// A query whose words take long keeps no other from its answer.
func TestTokenise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &stub{words: make(chan struct{})}
		s := readyServer(t, Options{}, map[string]Searcher{"test": x})
		long := make(chan int, 1)
		go func() { long <- do(s, "POST", "/v1/search", `{"query":"long"}`).StatusCode }()
		synctest.Wait()
		if r := do(s, "POST", "/v1/search", `{"query":"dog"}`); r.StatusCode != 200 || len(long) != 0 {
			t.Errorf("beside it: %d", r.StatusCode)
		}
		close(x.words)
		if got := <-long; got != 200 || !slices.Equal(x.sizes, []int{1, 1}) {
			t.Errorf("the long one: %d, batches of %v", got, x.sizes)
		}
	})
	// The loop does not look at the words again.
	x := fixture(t, "vseinf")
	q := try.Get(x.Tokenise(search.Query{Text: "a rusty lantern"}))(t)
	want := try.Get(x.Text(t.Context(), q.Text, 0))(t)
	q.Text = ""
	if got := x.Batch(t.Context(), []search.Query{q})[0]; got.Err != nil || !slices.Equal(got.Hits, want.Hits) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Requests for embeddings, whose bodies are large, have an eighth of the queue.
func TestEmbedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &stub{gate: make(chan struct{})}
		s := readyServer(t, Options{Limits: Limits{Queue: 16}}, map[string]Searcher{"test": x})
		statuses := make(chan int, 3)
		for range 3 {
			go func() { statuses <- do(s, "POST", "/v1/embed", `{"captions":["dog"]}`).StatusCode }()
		}
		if got := <-statuses; got != 429 {
			t.Errorf("the third: %d", got)
		}
		close(x.gate)
		if a, b := <-statuses, <-statuses; a != 200 || b != 200 {
			t.Errorf("the others: %d, %d", a, b)
		}
	})
}

// Requests that do not arrive keep nobody else from an answer, and end by themselves.
func TestSlowBodies(t *testing.T) {
	s := readyServer(t, Options{Limits: Limits{Queue: 2, Timeout: 200 * time.Millisecond}},
		map[string]Searcher{"test": &stub{}})
	h := httptest.NewServer(s)
	defer h.Close()
	var slow []net.Conn
	for range 20 {
		c := try.Get(net.Dial("tcp", h.Listener.Addr().String()))(t)
		defer c.Close()
		fmt.Fprintf(c, "POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: 100\r\n\r\n{")
		slow = append(slow, c)
	}
	time.Sleep(50 * time.Millisecond)
	r := try.Get(http.Post(h.URL+"/v1/search", "application/json", strings.NewReader(`{"query":"dog"}`)))(t)
	if r.Body.Close(); r.StatusCode != 200 {
		t.Errorf("beside slow ones: %d", r.StatusCode)
	}
	for _, c := range slow[:2] {
		answer, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || answer.StatusCode != http.StatusRequestTimeout {
			t.Errorf("a slow one: %v, %v", answer, err)
		}
	}
}

// A query of more words than any encoder takes is not cut into words.
func TestLongQueries(t *testing.T) {
	s := readyServer(t, Options{}, map[string]Searcher{"test": &stub{}})
	long := strings.Repeat("dog ", maxQuery/4) + "s"
	for path, body := range map[string]string{"/v1/search": `{"query":"` + long + `"}`,
		"/v1/embed": `{"captions":["dog","` + long + `"]}`} {
		r := do(s, "POST", path, body)
		if b, _ := io.ReadAll(r.Body); r.StatusCode != 400 || !strings.Contains(string(b), "at most 16384 bytes") {
			t.Errorf("%s: %d %s", path, r.StatusCode, b)
		}
	}
}

// What goes wrong inside is in the log and not in the answer, and the next request is answered.
func TestInternalErrors(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var log bytes.Buffer
		x := &stub{fault: "the secret"}
		s := readyServer(t, Options{Log: &log, JSON: asJSON}, map[string]Searcher{"test": x})
		for range 2 {
			if got, status := ask[ErrorAnswer](t, s, "/v1/search", `{"query":"dog"}`); status != 500 ||
				strings.Contains(got.Error.Message, "secret") {
				t.Errorf("%d %+v", status, got)
			}
		}
		x.fault, x.err = nil, errors.New("a disk is gone")
		do(s, "POST", "/v1/search", `{"query":"dog"}`)
		if r := do(s, "POST", "/v1/embed", `{"images":[[]]}`); r.StatusCode != 400 {
			t.Errorf("%d", r.StatusCode)
		}
		x.err = nil
		if r := do(s, "POST", "/v1/search", `{"query":"dog"}`); r.StatusCode != 200 {
			t.Errorf("after errors: %d", r.StatusCode)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 5 || !strings.Contains(lines[0], "the secret") ||
			!strings.Contains(lines[2], "a disk is gone") ||
			strings.Contains(log.String(), "dog") {
			t.Errorf("log:\n%s", log.String())
		}
		var line struct {
			Status int
			Path   string
		}
		if asJSON && (json.Unmarshal([]byte(lines[4]), &line) != nil || line.Status != 200 ||
			line.Path != "/v1/search") {
			t.Errorf("line %s", lines[4])
		}
	}
}

// A server says that it is starting, then answers, and when it is told to stop finishes what it has begun.
func TestLifecycle(t *testing.T) {
	l := try.Get(bind.Listen("127.0.0.1:0"))(t)
	s := try.Get(New(Options{Splits: []string{"test"}}))(t)
	ctx, stop := context.WithCancel(t.Context())
	x, opened, served := &stub{gate: make(chan struct{})}, make(chan bool), make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, l, func(context.Context) (Opened, error) {
			<-opened
			return Opened{Searchers: map[string]Searcher{"test": x}}, nil
		})
	}()
	url := "http://" + l.Addr().String()
	health := func() (int, string) {
		ask := try.Get(http.NewRequest("GET", url+"/healthz", nil))(t)
		ask.Header.Set("X-Request-Id", "7")
		r := try.Get(http.DefaultClient.Do(ask))(t)
		defer r.Body.Close()
		if id := r.Header.Get("X-Request-Id"); id != "7" {
			t.Errorf("over a connection the answer has the number %q", id)
		}
		return r.StatusCode, read[HealthAnswer](t, s, "/healthz", r).Status
	}
	post := func() (int, error) {
		r, err := http.Post(url+"/v1/search", "application/json", strings.NewReader(`{"query":"dog"}`))
		if err != nil {
			return 0, err
		}
		defer r.Body.Close()
		return r.StatusCode, nil
	}
	if status, state := health(); status != 503 || state != "starting" {
		t.Errorf("%d %s", status, state)
	}
	if status, err := post(); status != 503 || err != nil {
		t.Errorf("a search too early: %d, %v", status, err)
	}
	close(opened)
	for status, _ := health(); status != 200; status, _ = health() {
		time.Sleep(time.Millisecond)
	}
	answered := make(chan int, 1)
	go func() {
		status, err := post()
		if err != nil {
			t.Error(err)
		}
		answered <- status
	}()
	for {
		x.mu.Lock()
		begun := len(x.sizes) > 0
		x.mu.Unlock()
		if begun {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	for s.health() != "stopping" {
		time.Sleep(time.Millisecond)
	}
	if r := do(s, "POST", "/v1/search", `{"query":"dog"}`); r.StatusCode != 503 {
		t.Errorf("a search while it stops: %d", r.StatusCode)
	}
	close(x.gate)
	if status := <-answered; status != 200 {
		t.Errorf("the request in progress: %d", status)
	}
	try.Do(t, <-served)
	if n := s.counters.inFlight; n != 0 {
		t.Errorf("%d requests are in progress at the end", n)
	}
	if _, err := post(); err == nil {
		t.Error("it still answers")
	}

	l = try.Get(bind.Listen("127.0.0.1:0"))(t)
	s = try.Get(New(Options{Splits: []string{"test"}}))(t)
	failed := errors.New("no such run")
	err := s.Serve(t.Context(), l, func(context.Context) (Opened, error) { return Opened{}, failed })
	if !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]Options{
		"--split: expected":  {},
		"named twice":        {Splits: []string{"test", "test"}},
		`"" is empty`:        {Splits: []string{"", "test"}},
		"--max-k":            {Splits: []string{"test"}, Limits: Limits{MaxK: -1}},
		"--window":           {Splits: []string{"test"}, Window: time.Minute},
		"without port":       {Splits: []string{"test"}, Hosts: []string{"lab:80"}},
		"at least 16":        {Splits: []string{"test"}, Token: "short"},
		"non-ASCII":          {Splits: []string{"test"}, Token: strings.Repeat("ü", 20)},
		"a token with space": {Splits: []string{"test"}, Token: strings.Repeat("a ", 20)},
	} {
		try.Refuses(New(o))(t, want)
	}
}

// docs/openapi.json is what the server says; vsetrain serve --openapi writes it.
func TestDescriptionInDocs(t *testing.T) {
	s := try.Get(New(Options{Splits: []string{"test"}}))(t)
	want := try.Get(os.ReadFile(filepath.Join("..", "..", "..", "docs", "openapi.json")))(t)
	if !bytes.Equal(want, s.Description()) {
		t.Error("docs/openapi.json is old: vsetrain serve --openapi > docs/openapi.json")
	}
}
