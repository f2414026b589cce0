package device

import "vsetrain/internal/compute/philox"

// Dropout computes y = x·m/(1-Rate) with independent m, 0 with probability Rate and 1 otherwise. The same call on
// dy is the gradient: what is drawn is a function of the key, the step and the place alone. Y may be X.
//
// Dropout: element i of X is kept where word (First+i) mod 4 of philox block (Step, (First+i) div 4) is at least
// Rate·2³², rounded down. Step, the low and the high half of the counter of training steps, is read from device memory,
// so that a recorded step can be replayed.
type Dropout struct {
	Rate  float64 // in [0, 1)
	Key   philox.Key
	Step  Ints // [2]
	First int  // place of element 0, for values that are computed in parts
	X, Y  View
}

// Views implements Kernel.
func (a *Dropout) Views(c *Checker) {
	if !(a.Rate >= 0 && a.Rate < 1) || a.First < 0 {
		c.refuse("rate %v from element %d, expected a rate in [0, 1) and no negative element", a.Rate, a.First)
	}
	c.ints("Step", &a.Step.View, 2)
	c.exactly("X", &a.X, c.whole("Y", &a.Y))
}

// DropoutPadded is Dropout (but for First) of sequences that are padded: X and Y are rows of Width values, as many for
// each step as there are sequences, the steps from From on. A row that has a word takes the place that it would have
// were the sequences packed by Lengths; the others become zero.
type DropoutPadded struct {
	Dropout
	Lengths     Ints
	Width, From int
}

// Views implements Kernel.
func (a *DropoutPadded) Views(c *Checker) {
	n := len(a.Lengths.Host)
	c.positive("Width sequences", a.Width, n)
	a.Dropout.Views(c)
	c.packed("Lengths", &a.Lengths, anyLength)
	if a.From < 0 || a.Y.N%(a.Width*n) != 0 {
		c.refuse("%d values from step %d, expected rows of %d for %d sequences", a.Y.N, a.From, a.Width, n)
	}
}
