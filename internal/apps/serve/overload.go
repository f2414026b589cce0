package serve

import (
	"cmp"
	"sync/atomic"
	"time"
)

// overload says whether more is asked than can be answered: the queue was full, and since then somebody was refused in
// each second. Meanwhile fewer queries may wait, and none for long, so that those which are let in are answered about
// as soon as at other times; a burst that the queue holds is none.
type overload struct{ refused atomic.Int64 } // when somebody was, in nanoseconds since 1970

// calm is how long nobody must be refused for the overload to be over.
const calm = time.Second

func (o *overload) lasts() bool { return time.Now().UnixNano()-o.refused.Load() < int64(calm) }

// refuse notes that somebody is refused, and returns what he is told.
func (o *overload) refuse(told error) error {
	o.refused.Store(time.Now().UnixNano())
	return told
}

// costs follow what it takes to answer n queries together, a + b n: a least-squares line in which older batches count
// less and less.
type costs struct {
	weight, n, t, nn, nt float64
	last                 int     // what twice returned
	took                 float64 // seconds for that many; 0 is unknown
}

func (c *costs) add(n, t float64) {
	const keep = 0.995
	for _, x := range []*float64{&c.weight, &c.n, &c.t, &c.nn, &c.nt} {
		*x *= keep
	}
	c.weight, c.n, c.t, c.nn, c.nt = c.weight+1, c.n+n, c.t+t, c.nn+n*n, c.nt+n*t
}

// twice is how many queries are answered together in twice the time of one, from 2 to most. Where all batches had about
// the same size nobody can tell, and it stays what it was.
func (c *costs) twice(most int) int {
	n, t := c.n/c.weight, c.t/c.weight
	spread := c.nn/c.weight - n*n
	c.last = cmp.Or(c.last, most)
	if spread < 0.1 {
		return c.last
	}
	if c.last = most; c.nt/c.weight > n*t { // more take longer
		b := (c.nt/c.weight - n*t) / spread
		a := max(0, t-b*n)
		c.last = int(min(float64(most), 2+a/b))
		c.took = a + b*float64(c.last)
	}
	return c.last
}

// patience is how long a query may wait while there is too much to do: as long as the one that is let in last does, and
// half as long again. It is 0 where nothing is known.
func (c *costs) patience() time.Duration { return time.Duration(1.5 * c.took * float64(time.Second)) }
