// Package par runs data-parallel loops on a fixed set of worker goroutines.
//
// A Pool is created once per run and shared by every numeric package (GEMM, device kernels, sparse algebra,
// evaluation). It exists because starting goroutines and closures at every kernel allocates and costs
// microseconds; a Pool hands out loop indices to parked workers and allocates nothing.
//
// Results never depend on the number of threads as long as each index writes its own output: the pool
// decides only who computes an index, never what is computed.
package par

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Body is the body of a parallel loop.
type Body interface {
	// Do computes index i. worker identifies the calling worker in [0, Threads()), for scratch memory.
	Do(worker, i int)
}

// Func adapts a function to Body. It allocates a closure at the caller; steady-state code uses a Body struct.
type Func func(worker, i int)

// Do implements Body.
func (f Func) Do(worker, i int) { f(worker, i) }

// Pool is a fixed set of workers; a nil Pool is the calling goroutine alone. A Body must not call For of its own pool.
type Pool struct {
	threads int
	mu      sync.Mutex // one loop at a time
	wake    []chan struct{}
	done    sync.WaitGroup
	body    Body
	n       int64
	next    atomic.Int64
	failed  atomic.Pointer[any]
	closed  bool
}

// New starts a pool of the given number of threads; 0 means all processors the process may use.
func New(threads int) *Pool {
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	p := &Pool{threads: threads, wake: make([]chan struct{}, threads)}
	for w := 1; w < threads; w++ {
		p.wake[w] = make(chan struct{}, 1)
		go p.worker(w)
	}
	return p
}

// Threads returns the number of threads, the calling one included.
func (p *Pool) Threads() int {
	if p == nil {
		return 1
	}
	return p.threads
}

// For calls body.Do once for every i in [0, n), and returns when all calls have returned. It hands out indices one by
// one, which balances uneven work. If a body panics, For panics with the same value.
func (p *Pool) For(n int, body Body) {
	if n <= 0 {
		return
	}
	if p.Threads() == 1 || n == 1 {
		for i := range n {
			body.Do(0, i)
		}
		return
	}
	p.mu.Lock()
	p.body, p.n = body, int64(n)
	p.next.Store(0)
	helpers := min(p.threads, n) - 1
	p.done.Add(helpers)
	for w := 1; w <= helpers; w++ {
		p.wake[w] <- struct{}{}
	}
	p.drain(0)
	p.done.Wait()
	p.body = nil
	failed := p.failed.Swap(nil)
	p.mu.Unlock()
	if failed != nil {
		panic(*failed)
	}
}

// Close stops the workers. The pool must not be used afterwards.
func (p *Pool) Close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	for w := 1; w < p.threads; w++ {
		close(p.wake[w])
	}
}

func (p *Pool) worker(w int) {
	for range p.wake[w] {
		p.drain(w)
		p.done.Done()
	}
}

func (p *Pool) drain(w int) {
	defer func() {
		if r := recover(); r != nil {
			p.fail(r)
		}
	}()
	for {
		i := p.next.Add(1) - 1
		if i >= p.n {
			return
		}
		p.body.Do(w, int(i))
	}
}

func (p *Pool) fail(reason any) {
	p.next.Store(p.n)
	p.failed.CompareAndSwap(nil, &reason)
}

// Chunks returns the number of chunks of at least grain elements into which n elements are cut. It depends on n and
// grain alone, not on the number of threads, so that reductions over chunks are reproducible.
func Chunks(n, grain int) int {
	if n <= 0 {
		return 0
	}
	return max(1, min(256, n/max(1, grain)))
}

// Range returns the half-open range of chunk i of the given number of chunks over n elements.
func Range(n, chunks, i int) (lo, hi int) { return i * n / chunks, (i + 1) * n / chunks }
