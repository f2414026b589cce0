package device

import "vsetrain/internal/philox"

// Random are the kernels that draw.
type Random interface {
	// Dropout computes y = x·m/(1-Rate) with independent m, 0 with probability Rate and 1 otherwise. The same call on
	// dy is the gradient: what is drawn is a function of the key, the step and the place alone. Y may be X.
	Dropout(DropoutArgs)
}

// DropoutArgs: element i of X is kept where word (First+i) mod 4 of philox block (Step, (First+i) div 4) is at least
// Rate·2³², rounded down. Step, the low and the high half of the counter of training steps, is read from device memory,
// so that a recorded step can be replayed.
type DropoutArgs struct {
	Rate  float64 // in [0, 1)
	Key   philox.Key
	Step  Ints // [2]
	First int  // place of element 0, for values that are computed in parts
	X, Y  View
}

// Views declares the views of Dropout.
func (a *DropoutArgs) Views(c *Checker) {
	if !(a.Rate >= 0 && a.Rate < 1) || a.First < 0 {
		c.refuse("rate %v from element %d, expected a rate in [0, 1) and no negative element", a.Rate, a.First)
	}
	c.ints("Step", &a.Step.View, 2)
	c.exactly("X", &a.X, c.whole("Y", &a.Y))
}
