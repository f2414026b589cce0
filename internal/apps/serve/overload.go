package serve

import (
	"cmp"
	"sync/atomic"
	"time"
)

// overload tells whether requests arrive faster than they are answered: the queue was full, and since then a request
// was refused at least every second. During an overload fewer queries may wait, and none for long, so that admitted
// queries are answered nearly as fast as usual. A burst that fits into the queue is no overload.
type overload struct{ refused atomic.Int64 } // time of the last refusal, in nanoseconds since 1970

// calm is the time without a refusal that ends an overload.
const calm = time.Second

func (o *overload) lasts() bool { return time.Now().UnixNano()-o.refused.Load() < int64(calm) }

// refuse notes a refusal and returns its error.
func (o *overload) refuse(err error) error {
	o.refused.Store(time.Now().UnixNano())
	return err
}

// costs estimates the time to answer n queries together as a + b n, by least squares with decaying weights.
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

// twice returns how many queries are answered together in twice the time of one, from 2 to most. If all batches had
// about the same size, this is unknown, and twice returns the same as before.
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

// patience returns how long a query may wait during an overload: one and a half times as long as the last admitted
// query is expected to wait; 0 is unknown.
func (c *costs) patience() time.Duration { return time.Duration(1.5 * c.took * float64(time.Second)) }
