package serve

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"vsetrain/internal/apps/search"
)

var (
	loadTime     = flag.Duration("load-time", 0, "how long the tests of load ask for too much; 0 is a moment")
	loadRequests = flag.Int("load-requests", 0, "how many requests TestServedUnderLoad makes at least")
)

// timed answers queries in a time that grows with their number, as a searcher does.
type timed struct {
	stub
	batch, query time.Duration
}

func (x *timed) Batch(ctx context.Context, queries []search.Query) []search.Result {
	time.Sleep(x.batch + time.Duration(len(queries))*x.query)
	return x.stub.Batch(ctx, queries)
}

// load is what came of requests.
type load struct {
	mu       sync.Mutex
	statuses map[int]int
	times    []time.Duration // of those that were answered, but for slow bodies
}

func (l *load) ask(s *Server, body io.Reader) {
	_, slow := body.(drip)
	start := time.Now()
	r := httptest.NewRequest("POST", "/v1/search", body)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.statuses[w.Code]++; w.Code == http.StatusOK && !slow {
		l.times = append(l.times, time.Since(start))
	}
}

// p99 is the 99th percentile of the times.
func (l *load) p99() time.Duration {
	slices.Sort(l.times)
	return l.times[len(l.times)*99/100]
}

// drip is a body that takes some seconds to arrive.
type drip struct{ from io.Reader }

func (d drip) Read(b []byte) (int, error) {
	time.Sleep(time.Second)
	return d.from.Read(b[:min(len(b), 8)])
}

const short = `{"query":"a dog runs on the beach","k":10}`

// arrive sends that many requests a second, at random moments, for a while, whether or not others are answered.
func arrive(s *Server, rate float64, during time.Duration, bodies func(r *rand.Rand) io.Reader) *load {
	l, r := &load{statuses: map[int]int{}}, rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	for begin := time.Now(); time.Since(begin) < during; {
		time.Sleep(time.Duration(r.ExpFloat64() / rate * float64(time.Second)))
		body := bodies(r)
		all.Go(func() { l.ask(s, body) })
	}
	all.Wait()
	return l
}

// mixed are short queries, one of fifty as long as allowed, too long, or slow.
func mixed(r *rand.Rand) io.Reader {
	switch r.IntN(200) {
	case 0, 1:
		return strings.NewReader(`{"query":"` + strings.Repeat("dog ", maxQuery/4-1) + `"}`)
	case 2:
		return strings.NewReader(`{"query":"` + strings.Repeat("dog ", maxQuery) + `"}`)
	case 3:
		return drip{strings.NewReader(short)}
	}
	return strings.NewReader(short)
}

func plain(*rand.Rand) io.Reader { return strings.NewReader(short) }

// At twice the rate at which twenty clients are answered, those that are let in are answered nearly as
// soon as at half the rate, the others are refused, and slow and large requests change nothing. A server that was never
// asked for more refuses nobody, and one that was asked for too much does not refuse a second later (time is the
// test's).
func TestOverload(t *testing.T) {
	for name, x := range map[string]*timed{
		"a GRU over few images":  {batch: 3 * time.Millisecond, query: 1200 * time.Microsecond},
		"many images":            {batch: 20 * time.Millisecond, query: 100 * time.Microsecond},
		"a network that is slow": {batch: 500 * time.Microsecond, query: 5 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := readyServer(t, Options{Window: 2 * time.Millisecond}, map[string]Searcher{"test": x})
				closed, begin := &load{statuses: map[int]int{}}, time.Now()
				var all sync.WaitGroup
				for range 20 {
					all.Go(func() {
						for time.Since(begin) < 2*time.Second {
							closed.ask(s, strings.NewReader(short))
						}
					})
				}
				all.Wait()
				if len(closed.statuses) > 1 {
					t.Fatalf("twenty clients: %v", closed.statuses)
				}
				rate := float64(len(closed.times)) / time.Since(begin).Seconds()
				during := max(4*time.Second, *loadTime)
				half := arrive(s, rate/2, during, plain)
				if len(half.statuses) > 1 {
					t.Errorf("half the rate: %v", half.statuses)
				}
				before := runtime.NumGoroutine()
				most := 0
				ended := make(chan bool)
				var watched sync.WaitGroup
				watched.Go(func() {
					for {
						select {
						case <-ended:
							return
						case <-time.After(100 * time.Millisecond):
							most = max(most, runtime.NumGoroutine())
						}
					}
				})
				if during < time.Minute {
					// The queue fills, which in a minute is under one of a hundred; what waits there is refused then.
					slow := 0
					for _, took := range arrive(s, 2*rate, time.Second, plain).times {
						if took > 3*half.p99() {
							slow++
						}
					}
					if t.Logf("%d answers were slow at first", slow); slow > search.MaxBatch*4/3 {
						t.Errorf("%d answers were slow at first, expected hardly more than are given together", slow)
					}
				}
				double := arrive(s, 2*rate, during, mixed)
				close(ended)
				watched.Wait()
				if most > before+1000 {
					t.Errorf("%d goroutines under load, %d before", most, before)
				}
				for status, n := range double.statuses {
					few := n <= len(double.times)/50 // too long queries
					if !slices.Contains([]int{200, 429, 503}, status) && !(few && (status == 400 || status == 422)) {
						t.Errorf("%d requests have status %d", n, status)
					}
				}
				p, q := half.p99(), double.p99()
				answered := float64(double.statuses[200]) / during.Seconds()
				t.Logf("%.0f queries/s of twenty clients, p99 %v; at half the rate p99 %v; at twice the rate %.0f/s, "+
					"p99 %v (%.2f times), %v", rate, closed.p99(), p, answered, q, q.Seconds()/p.Seconds(),
					double.statuses)
				refused := double.statuses[429] > 0 || answered > 1.9*rate
				if q.Seconds() > 1.3*p.Seconds() || !refused || answered < rate/3 {
					t.Errorf("p99 %v at half the rate, %v at twice, of %.0f answers a second", p, q, answered)
				}
				time.Sleep(2 * time.Second)
				if after := arrive(s, rate/2, time.Second, plain); len(after.statuses) > 1 {
					t.Errorf("after the load: %v", after.statuses)
				}
			})
		})
	}
}

// More clients than the queue has places, over HTTP, among them some that send slowly and some that ask for too much:
// every answer equals search's, the others are refused, memory stays, and the server ends within 5 s while they ask.
func TestServedUnderLoad(t *testing.T) {
	x := fixture(t, "vseinf")
	var queries []string
	var want []search.Answer
	for i := range 30 {
		a, err := x.Text(t.Context(), x.Caption(i), 4)
		if _, unknown := err.(*search.UnknownError); unknown {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		queries, want = append(queries, x.Caption(i)), append(want, a)
	}
	_, url, stop := started(t, Options{Window: 2 * time.Millisecond, Limits: Limits{Queue: 16}}, x)
	defer stop()
	const clients = 100
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var mu sync.Mutex
	statuses, stopping := map[int]int{}, false
	post := func(i int, body io.Reader) {
		r, err := client.Post(url+"/v1/search", "application/json", body)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			if !stopping && i >= 0 { // what is too large is not read to its end
				t.Error(err)
			}
			return
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		statuses[r.StatusCode]++
		var got SearchAnswer
		if err == nil && r.StatusCode == http.StatusOK && i >= 0 {
			err = json.Unmarshal(b, &got)
			same := slices.EqualFunc(got.Hits, want[i].Hits, func(g Hit, w search.Hit) bool {
				return g.Image == w.Index && g.Score == w.Score
			})
			if !same {
				t.Errorf("query %d: %s, expected %+v", i, b, want[i].Hits)
			}
		}
		if err != nil && !stopping {
			t.Error(err)
		}
	}
	ask := func(during time.Duration, answers, requests int) {
		var all sync.WaitGroup
		var asked atomic.Int64
		end := time.Now().Add(during)
		more := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Before(end) || statuses[200] < answers || asked.Load() < int64(requests)
		}
		for c := range clients {
			all.Go(func() {
				for n := 0; more(); n++ {
					i := (7*n + c) % len(queries)
					asked.Add(1)
					switch {
					case c == 0:
						post(-1, strings.NewReader(`{"query":"`+strings.Repeat("dog ", maxQuery/4-1)+`"}`))
					case c == 1:
						post(-1, strings.NewReader(`{"query":"`+strings.Repeat("a", searchBody)+`"}`))
					default:
						post(i, strings.NewReader(`{"query":`+marshal(t, queries[i])+`,"k":4}`))
					}
				}
			})
		}
		all.Wait()
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	during := max(300*time.Millisecond, *loadTime)
	ask(during/2, 0, 0)
	before := heap()
	ask(during, 50, *loadRequests)
	after := heap()
	if t.Logf("%d bytes are in use behind %v, %d before", after, statuses, before); after > before+before/4+8<<20 {
		t.Error("memory grows with the requests")
	}
	for status, n := range statuses {
		if !slices.Contains([]int{200, 400, 413, 422, 429, 503}, status) {
			t.Errorf("%d requests have status %d", n, status)
		}
	}
	if statuses[429] == 0 {
		t.Errorf("nothing was refused: statuses %v", statuses)
	}
	t.Logf("campaign: requests under load: %d found, %[1]d tried, 0 failed", statuses[200]+statuses[429])
	asked := make(chan bool)
	go func() {
		defer close(asked)
		ask(during, 0, 0)
	}()
	time.Sleep(during / 4)
	mu.Lock()
	stopping = true
	mu.Unlock()
	start := time.Now()
	if stop(); time.Since(start) > 5*time.Second {
		t.Errorf("the server ended after %v", time.Since(start))
	}
	client.CloseIdleConnections()
	<-asked
}

// Whatever the body is, the server answers it as JSON, with an error of the client or what it asked for.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{short, `{"vector":[0.5],"k":1}`, `{"vector":"AACAPw==","captions":1}`,
		`{"captions":["dog"],"encoding":"base64"}`, `{"images":[[1]]}`, `{"pictures":["/9j/"]}`,
		`{"query":"` + "\xff" + `"}`, `{"k":1e400}`, `{}`, `[`, `{"id":"a","picture":""}`} {
		for path := range 3 {
			f.Add(path, body)
		}
	}
	f.Fuzz(func(t *testing.T, path int, body string) {
		s := readyServer(t, Options{}, map[string]Searcher{"test": &stub{}})
		at := []string{"/v1/search", "/v1/embed", "/v1/images/remove"}[(path%3+3)%3]
		r := do(s, "POST", at, body)
		b, err := io.ReadAll(r.Body)
		if err != nil || !json.Valid(b) || r.StatusCode >= 500 && r.StatusCode != 501 && r.StatusCode != 503 {
			t.Errorf("%s: status %d, %q, %v", at, r.StatusCode, b, err)
		}
	})
}
