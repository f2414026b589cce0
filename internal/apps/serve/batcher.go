package serve

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"vsetrain/internal/apps/search"
)

// batcher answers the queries of one split. Queries that arrive while it answers others are answered together next.
type batcher struct {
	searcher Searcher
	window   time.Duration
	queue    chan *asked
	counters *counters
	overload *overload
	costs    costs
	most     atomic.Int32  // how many queries may wait during an overload
	expected int           // queries expected from the clients of the last batch
	took     time.Duration // by the last batch
	done     sync.WaitGroup
}

type asked struct {
	search.Query
	ctx    context.Context
	since  time.Time
	answer chan search.Result // has room for one, so that the loop never waits for a request that has gone
}

func newBatcher(s Searcher, window time.Duration, room int, c *counters, o *overload) *batcher {
	b := &batcher{searcher: s, window: window, queue: make(chan *asked, room), counters: c, overload: o}
	b.most.Store(search.MaxBatch)
	b.done.Go(b.loop)
	return b
}

// close ends the batcher. No query may be asked then.
func (b *batcher) close() {
	close(b.queue)
	b.done.Wait()
}

// ask returns the answer to a query, or the error of the context. It tokenises the query on the goroutine of the
// request, because all queries wait for the loop.
func (b *batcher) ask(ctx context.Context, q search.Query) (search.Answer, error) {
	q, err := b.searcher.Tokenise(q)
	if err != nil {
		return search.Answer{}, err
	}
	if most := int(b.most.Load()); len(b.queue) >= most && b.overload.lasts() {
		return search.Answer{}, b.overload.refuse(busy(most))
	}
	a := &asked{Query: q, ctx: ctx, since: time.Now(), answer: make(chan search.Result, 1)}
	select {
	case b.queue <- a:
	case <-ctx.Done():
		return search.Answer{}, ctx.Err()
	}
	select {
	case r := <-a.answer:
		return r.Answer, r.Err
	case <-ctx.Done():
		return search.Answer{}, ctx.Err()
	}
}

func (b *batcher) loop() {
	for first := range b.queue {
		batch := b.gather(first)
		start := time.Now()
		b.answer(batch)
		b.took = time.Since(start)
		b.expected = len(batch) + len(b.queue)
	}
}

// gather adds to the first query the waiting ones, and the ones that come within the window, until there are as many as
// expected: clients tend to ask again after an answer. A single query after a single query does not wait. If less than
// a quarter of the expected queries wait, the other clients are about to ask again. A late query would wait for two
// batches, so the window is then half the time of a batch, at most four times as long as usual.
func (b *batcher) gather(first *asked) []*asked {
	batch, window := []*asked{first}, b.window
	if 4*(1+len(b.queue)) < b.expected && window > 0 {
		window = min(max(window, b.took/2), 4*window)
	}
	var closed <-chan time.Time // nil until the loop waits
	for len(batch) < search.MaxBatch {
		select {
		case a, ok := <-b.queue:
			if !ok {
				return batch
			}
			batch = append(batch, a)
			continue
		default:
		}
		if b.window == 0 || len(batch) >= b.expected {
			return batch
		}
		if closed == nil {
			closed = time.After(window)
		}
		select {
		case a, ok := <-b.queue:
			if !ok {
				return batch
			}
			batch = append(batch, a)
		case <-closed:
			return batch
		}
	}
	return batch
}

func (b *batcher) answer(batch []*asked) {
	var waiting []*asked
	var queries []search.Query
	patience := b.costs.patience()
	for _, a := range batch {
		switch {
		case a.ctx.Err() != nil:
		case patience > 0 && time.Since(a.since) > patience && b.overload.lasts():
			a.answer <- search.Result{Err: b.overload.refuse(busy(len(b.queue) + len(batch)))}
		default:
			waiting, queries = append(waiting, a), append(queries, a.Query)
		}
	}
	if len(waiting) == 0 {
		return
	}
	start := time.Now()
	results := b.results(queries)
	b.costs.add(float64(len(queries)), time.Since(start).Seconds())
	b.most.Store(int32(b.costs.twice(search.MaxBatch)))
	b.counters.add(func() {
		b.counters.batches++
		b.counters.queries += int64(len(queries))
	})
	for i, a := range waiting {
		a.answer <- results[i]
	}
}

// results answers queries. The end of one request does not cancel the batch.
func (b *batcher) results(queries []search.Query) (results []search.Result) {
	defer func() {
		if e := recover(); e != nil {
			results = make([]search.Result, len(queries))
			for i := range results {
				results[i].Err = fmt.Errorf("panic: %v", e)
			}
		}
	}()
	return b.searcher.Batch(context.Background(), queries)
}
