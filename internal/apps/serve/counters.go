package serve

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// counters are what /metrics shows, in the text format of Prometheus.
type counters struct {
	sync.Mutex
	requests map[counted]int64
	seconds  []int64 // of searches and embeddings, by bounds, the last beyond all
	sum      float64
	inFlight int64
	batches  int64
	queries  int64
	failed   int64 // reloads
	reloaded int64
}

type counted struct {
	route  string
	status int
}

// bounds are the upper bounds of the histogram of times, in seconds.
var bounds = []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}

func newCounters() *counters {
	return &counters{requests: map[counted]int64{}, seconds: make([]int64, len(bounds)+1)}
}

// add changes counters while it holds their lock.
func (c *counters) add(change func()) {
	c.Lock()
	defer c.Unlock()
	change()
}

// end counts an answered request; with timed, the histogram counts it too.
func (c *counters) end(route string, status int, took time.Duration, timed bool) {
	c.Lock()
	defer c.Unlock()
	c.inFlight--
	c.requests[counted{route, status}]++
	if timed {
		at, _ := slices.BinarySearch(bounds, took.Seconds())
		c.seconds[at]++
		c.sum += took.Seconds()
	}
}

func metric(w io.Writer, name, kind, help string) {
	fmt.Fprintf(w, "# HELP vsetrain_%s %s\n# TYPE vsetrain_%[1]s %[3]s\n", name, help, kind)
}

func (c *counters) write(w io.Writer) {
	c.Lock()
	defer c.Unlock()
	metric(w, "requests_total", "counter", "Requests that were answered.")
	for _, k := range slices.SortedFunc(maps.Keys(c.requests), func(a, b counted) int {
		return cmp.Or(strings.Compare(a.route, b.route), a.status-b.status)
	}) {
		fmt.Fprintf(w, "vsetrain_requests_total{route=%q,status=\"%d\"} %d\n", k.route, k.status, c.requests[k])
	}
	metric(w, "request_seconds", "histogram", "Time of searches and embeddings that were answered.")
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
	metric(w, "reloads_total", "counter", "Reloads of the splits.")
	fmt.Fprintf(w, "vsetrain_reloads_total{result=\"failed\"} %d\nvsetrain_reloads_total{result=\"ok\"} %d\n", c.failed,
		c.reloaded)
	for _, m := range []struct {
		name, kind, help string
		value            int64
	}{
		{"requests_in_progress", "gauge", "Requests in progress.", c.inFlight},
		{"batches_total", "counter", "Batches of queries that were answered together.", c.batches},
		{"queries_total", "counter", "Queries in these batches.", c.queries},
	} {
		metric(w, m.name, m.kind, m.help)
		fmt.Fprintf(w, "vsetrain_%s %d\n", m.name, m.value)
	}
}
