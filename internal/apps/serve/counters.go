package serve

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// counters are what /metrics shows, in the text format of Prometheus.
type counters struct {
	mu       sync.Mutex
	requests map[counted]int64
	seconds  []int64 // of searches and embeddings, by bounds, the last beyond all
	sum      float64
	inFlight int64
	batches  int64
	reloads  [2]int64 // that failed, and that did not
	queries  int64
}

// counted tells requests apart.
type counted struct {
	route  string
	status int
}

// bounds are those of the histogram of times, in seconds.
var bounds = []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}

func newCounters() *counters {
	return &counters{requests: map[counted]int64{}, seconds: make([]int64, len(bounds)+1)}
}

// begin counts a request in progress.
func (c *counters) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight++
}

// end counts a request that was answered; those with timed set are in the histogram.
func (c *counters) end(route string, status int, took time.Duration, timed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	c.requests[counted{route, status}]++
	if !timed {
		return
	}
	at, _ := slices.BinarySearch(bounds, took.Seconds())
	c.seconds[at]++
	c.sum += took.Seconds()
}

// batch counts queries that were answered together.
func (c *counters) batch(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches++
	c.queries += int64(n)
}

// reload counts a reload.
func (c *counters) reload(ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ok {
		c.reloads[1]++
		return
	}
	c.reloads[0]++
}

func (c *counters) write(w io.Writer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprint(w, "# HELP vsetrain_requests_total Requests that were answered.\n"+
		"# TYPE vsetrain_requests_total counter\n")
	keys := slices.SortedFunc(maps.Keys(c.requests), func(a, b counted) int {
		if a.route != b.route {
			if a.route < b.route {
				return -1
			}
			return 1
		}
		return a.status - b.status
	})
	for _, k := range keys {
		fmt.Fprintf(w, "vsetrain_requests_total{route=%q,status=\"%d\"} %d\n", k.route, k.status, c.requests[k])
	}
	fmt.Fprint(w, "# HELP vsetrain_request_seconds Time of searches and embeddings that were answered.\n"+
		"# TYPE vsetrain_request_seconds histogram\n")
	var total int64
	for i, n := range c.seconds {
		total += n
		bound := "+Inf"
		if i < len(bounds) {
			bound = fmt.Sprint(bounds[i])
		}
		fmt.Fprintf(w, "vsetrain_request_seconds_bucket{le=%q} %d\n", bound, total)
	}
	fmt.Fprintf(w, "vsetrain_request_seconds_sum %g\nvsetrain_request_seconds_count %d\n", c.sum, total)
	fmt.Fprintf(w, "# HELP vsetrain_reloads_total Reloads of the splits.\n# TYPE vsetrain_reloads_total counter\n"+
		"vsetrain_reloads_total{result=\"failed\"} %d\nvsetrain_reloads_total{result=\"ok\"} %d\n", c.reloads[0],
		c.reloads[1])
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"vsetrain_requests_in_progress", "gauge", "Requests in progress.", c.inFlight},
		{"vsetrain_batches_total", "counter", "Rounds of queries that were answered together.", c.batches},
		{"vsetrain_queries_total", "counter", "Queries in these rounds.", c.queries},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
}
