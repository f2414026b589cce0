package device

// GRUCell is one step of a GRU (see GRU) for N rows. GRUCell reads Gates [N, 4H], whose first three parts hold
// W_i x + b_i, Hidden [N, 3H], W_h h + b_h, and Before [N, H], the state h; it writes the state after the step to Y, a
// copy of Before to Prev, and r, z, n, W_hn h + b_hn to Gates.
//
// The gradient reads those Gates, Prev, DY (optional) and Carry [N, H], the gradient of the state after the step that
// comes from later steps; it overwrites Gates with the gradients of the inputs of n, r, z and of W_hn h + b_hn in this
// order, so that the last three parts are the gradient of Hidden and the first three, n in front, that of W_i x + b_i,
// and Carry with the part of the gradient that reaches h directly.
type GRUCell struct {
	Gradient
	N, H          int
	Gates, Hidden View
	Before, Y     View
	Prev          View
	DY, Carry     View
}

// Views implements Kernel.
func (a *GRUCell) Views(c *Checker) {
	c.positive("N H", a.N, a.H)
	n := a.N * a.H
	c.floats("Gates", &a.Gates, 4*n)
	c.floats("Prev", &a.Prev, n)
	if a.Grad {
		c.optional("DY", &a.DY, n)
		c.floats("Carry", &a.Carry, n)
	} else {
		c.floats("Hidden", &a.Hidden, 3*n)
		c.floats("Before", &a.Before, n)
		c.floats("Y", &a.Y, n)
	}
}
