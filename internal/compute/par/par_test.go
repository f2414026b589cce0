package par

import (
	"sync/atomic"
	"testing"
)

type count struct {
	seen []atomic.Int32
	bad  atomic.Int32
	max  int
}

func (c *count) Do(worker, i int) {
	c.seen[i].Add(1)
	if worker < 0 || worker >= c.max {
		c.bad.Add(1)
	}
}

func TestForVisitsEachIndexOnce(t *testing.T) {
	for _, p := range []*Pool{nil, New(1), New(2), New(3), New(8)} {
		threads := p.Threads()
		for _, n := range []int{0, 1, 2, 7, 1000} {
			c := &count{seen: make([]atomic.Int32, n), max: threads}
			p.For(n, c)
			for i := range c.seen {
				if got := c.seen[i].Load(); got != 1 {
					t.Fatalf("threads %d n %d: index %d ran %d times", threads, n, i, got)
				}
			}
			if c.bad.Load() != 0 {
				t.Fatalf("threads %d: worker number out of range", threads)
			}
		}
		p.Close()
	}
}

func TestForRaisesPanicAndSurvives(t *testing.T) {
	p := New(3)
	defer p.Close()
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic of a body did not reach the caller")
			}
		}()
		p.For(100, Func(func(_, i int) {
			if i == 17 {
				panic("boom")
			}
		}))
	}()
	var n atomic.Int32
	p.For(100, Func(func(_, _ int) { n.Add(1) }))
	if n.Load() != 100 {
		t.Fatalf("after a panic the pool ran %d of 100", n.Load())
	}
}

func TestForDoesNotAllocate(t *testing.T) {
	p := New(2)
	defer p.Close()
	c := &count{seen: make([]atomic.Int32, 64), max: 2}
	if a := testing.AllocsPerRun(100, func() { p.For(64, c) }); a != 0 {
		t.Fatalf("%v allocations per loop, want 0", a)
	}
}

func TestChunksCoverWithoutOverlap(t *testing.T) {
	for _, n := range []int{1, 5, 4096, 99999} {
		c, end := Chunks(n, 1024), 0
		for i := range c {
			lo, hi := Range(n, c, i)
			if lo != end || hi < lo {
				t.Fatalf("n %d chunk %d is [%d,%d), previous ended at %d", n, i, lo, hi, end)
			}
			end = hi
		}
		if end != n {
			t.Fatalf("chunks of %d end at %d", n, end)
		}
	}
}
