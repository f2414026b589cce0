package serve

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"vsetrain/data/synth"
	"vsetrain/internal/apps/search"
	"vsetrain/internal/compute/device"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/internal/run/training"
	"vsetrain/lab/try"
	"vsetrain/models"
)

// BenchmarkTwentyInParallel is twenty clients that search 30,000 images over HTTP on the loopback address, each with
// its own connection and the next query as soon as it has an answer. The network is a VSE-infinity with the published
// sizes, a bidirectional GRU and embeddings of 1,024 values, after one step of training; captions are captions of the
// synthetic world. It ends after 100 queries for each client: -benchtime 1x. Median, 99th percentile and slowest are
// reported, and the mean number of queries that were answered together.
func BenchmarkTwentyInParallel(b *testing.B) {
	const images = 30_000
	run := trainWorld(b, images)
	for _, precision := range []string{"fp32", "bf16"} {
		b.Run(precision, func(b *testing.B) { twentyInParallel(b, openRun(b, run, precision), images) })
	}
}

// twentyInParallel measures the answers about an index of some images.
func twentyInParallel(b *testing.B, x *search.Index, images int) {
	const clients, each = 20, 100
	s, url, stop := started(b, Options{Window: 2 * time.Millisecond}, x)
	defer stop()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	for b.Loop() {
		took, queries := make([][]time.Duration, clients), atomic.Int64{}
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for range each {
					body := fmt.Sprintf(`{"query":%q,"k":10}`, x.Caption(int(queries.Add(1)*7)%(5*images)))
					start := time.Now()
					r, err := client.Post(url+"/v1/search", "application/json", strings.NewReader(body))
					if err != nil {
						b.Error(err)
						return
					}
					_, err = io.Copy(io.Discard, r.Body)
					if r.Body.Close(); err != nil || r.StatusCode != http.StatusOK {
						b.Errorf("%v, %v", r.Status, err)
						return
					}
					took[c] = append(took[c], time.Since(start))
				}
			})
		}
		all.Wait()
		times := slices.Concat(took...)
		slices.Sort(times)
		if len(times) < clients*each {
			b.Fatalf("%d of %d answers", len(times), clients*each)
		}
		for name, at := range map[string]int{"ms-median": len(times) / 2, "ms-p99": len(times) * 99 / 100,
			"ms-slowest": len(times) - 1} {
			b.ReportMetric(float64(times[at].Microseconds())/1000, name)
		}
		b.ReportMetric(float64(s.counters.queries)/float64(s.counters.batches), "queries/batch")
	}
}

// trainWorld trains for a step on a synthetic world with that many images in its test split.
func trainWorld(b *testing.B, images int) (run string) {
	b.Helper()
	world := filepath.Join(b.TempDir(), "world")
	o := synth.Default()
	o.Train, o.Dev, o.Test, o.Regions, o.Dim = 64, 12, images, 1, 64
	try.Do(b, synth.Generate(world, o, nil))
	c := config.Default()
	c.Data.Dir = world
	c.Model.Network, c.Model.TextEncoder, c.Model.EmbedDim = models.VSEInf, "bigru", 1024
	c.Loss.Name = "lmh"
	c.Train.Epochs, c.Train.MaxSteps, c.Train.Batch, c.Train.ValStep = 1, 1, 64, 0
	run = filepath.Join(b.TempDir(), "run")
	try.Get(training.Train(b.Context(), training.Request{Config: &c, RunDir: run,
		Env: runfs.Env{Host: "host", PID: os.Getpid()}, Now: time.Now}))(b)
	return run
}

// openRun opens a run in a precision and encodes its images.
func openRun(b *testing.B, run, precision string) *search.Index {
	b.Helper()
	o := search.Options{Checkpoints: []string{run}, Device: device.DefaultOptions()}
	o.Device.Precision = precision
	x := try.Get(search.Open(o))(b)
	b.Cleanup(func() { x.Close() })
	try.Do(b, x.Prepare(b.Context(), search.TextQueries))
	try.Do(b, x.PrepareBatches(b.Context()))
	return x
}
