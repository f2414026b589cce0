package device

import "vsetrain/internal/compute/philox"

// Drops is what dropout draws. Column k of row r has the place Rows[r]·2³² + k; place i is kept where word i mod 4 of
// philox block (Step, i div 4) is at least Rate·2³², rounded down, and then divided by 1 - Rate. A row with a negative
// number becomes zero. So a mask depends neither on where in memory a row lies nor on its neighbours.
//
// Step, the low and the high half of the counter of training steps, is read from device memory, so that a recorded step
// can be replayed. Rate 0 keeps everything; kernels that Drops is a field of read neither Step nor Rows then.
type Drops struct {
	Rate float64 // in [0, 1)
	Key  philox.Key
	Step Ints // [2]
	Rows View // int32 [rows], numbers of rows (graph.Graph.RowNumbers)
}

// views declares the views for n rows, by their names in a kernel.
func (p *Drops) views(c *Checker, step, rows string, n int) {
	if !(p.Rate >= 0 && p.Rate < 1) {
		c.refuse("dropout rate %v, expected one in [0, 1)", p.Rate)
	}
	if p.Rate > 0 {
		c.ints(step, &p.Step.View, 2)
		c.ints(rows, &p.Rows, n)
	}
}

// Part returns the draws of rows [from, to).
func (p Drops) Part(from, to int) Drops {
	if p.Rate > 0 {
		p.Rows = p.Rows.Slice(from, to)
	}
	return p
}

// Dropout computes y = x·m/(1-Rate) with independent m, 0 with probability Rate and 1 otherwise, drawn as Drops says.
// The same call on dy is the gradient. Y may be X.
type Dropout struct {
	Drops
	Width int
	X, Y  View // [rows, Width]
}

// Views implements Kernel.
func (a *Dropout) Views(c *Checker) {
	c.positive("Width", a.Width)
	n := c.whole("Y", &a.Y)
	c.exactly("X", &a.X, n)
	if n%a.Width != 0 || !(a.Rate > 0) {
		c.refuse("%d values at rate %v, expected rows of %d and a positive rate", n, a.Rate, a.Width)
	}
	a.Drops.views(c, "Step", "Rows", n/a.Width)
}
