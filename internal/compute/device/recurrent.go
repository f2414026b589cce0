package device

// GRU runs one direction of a GRU layer over a packed batch (torch.nn.GRU):
//
//	r = σ(W_ir x + b_ir + W_hr h + b_hr)    z = σ(W_iz x + b_iz + W_hz h + b_hz)
//	n = tanh(W_in x + b_in + r∘(W_hn h + b_hn))    h' = (1-z)∘n + z∘h    h₀ = 0
//
// Rows are packed time-major (see Packing). The kernel reads and writes T rows; memory beyond them does not change.
// Reverse runs from the last word of each caption to the first. GRU writes Y [T, H] and Final [B, H], the state after
// the last processed word. For the gradient it keeps Gates [T, 4H] (r, z, n, W_hn h + b_hn) and Prev [T, H], the state
// before each word. The gradient reads DY [T, H] and DFinal [B, H] (either may be absent) and writes DX [T, I]
// (optional), DWIH, DWHH, DBIH and DBHH. It may overwrite Gates.
type GRU struct {
	Gradient
	I, H           int
	Lengths        Ints // [B], descending, each at least 1
	Reverse        bool
	X              View // [T, I]
	Y, Final       View
	DY, DFinal, DX View
	GRUDirection
}

func (a *GRU) Views(c *Checker) {
	c.positive("I H", a.I, a.H)
	batch, rows := len(a.Lengths.Host), c.packed(&a.Lengths, anyLength)
	c.floats("X", &a.X, rows*a.I)
	a.GRUDirection.views(c, a.I, a.H, rows, a.Grad)
	if a.Grad {
		c.optional("DY", &a.DY, rows*a.H)
		c.optional("DFinal", &a.DFinal, batch*a.H)
		c.optional("DX", &a.DX, rows*a.I)
	} else {
		c.floats("Y", &a.Y, rows*a.H)
		c.optional("Final", &a.Final, batch*a.H)
	}
}

// BiGRU runs both directions of a GRU layer over a packed batch, each as in GRU, and averages their states:
//
//	Y = (→h + ←h)/2
//
// Directions[0] runs forward, Directions[1] backward; each keeps its Gates and Prev. The gradient reads DY [T, H] and
// writes DX (optional), the sum over both directions, and the gradients of the weights of both. It may overwrite Gates.
// Work is scratch memory: [T, H], or [T, H+I] for a gradient with DX.
type BiGRU struct {
	Gradient
	I, H       int
	Lengths    Ints // [B], descending, each at least 1
	X          View // [T, I]
	Y          View // [T, H]
	DY, DX     View
	Work       View
	Directions [2]GRUDirection
}

func (a *BiGRU) Views(c *Checker) {
	c.positive("I H", a.I, a.H)
	rows := c.packed(&a.Lengths, anyLength)
	c.floats("X", &a.X, rows*a.I)
	for k := range a.Directions {
		a.Directions[k].views(c, a.I, a.H, rows, a.Grad)
	}
	work := rows * a.H
	if a.Grad {
		c.floats("DY", &a.DY, rows*a.H)
		c.optional("DX", &a.DX, rows*a.I)
		if a.DX.Present() {
			work += rows * a.I
		}
	} else {
		c.floats("Y", &a.Y, rows*a.H)
	}
	c.floats("Work", &a.Work, work)
}

// GRUDirection holds the weights of one direction, its saved tensors and its gradients, as in GRU.
type GRUDirection struct {
	WIH, WHH    View // [3H, I], [3H, H], gates stacked r, z, n
	BIH, BHH    View // [3H]
	Gates, Prev View
	DWIH, DWHH  View
	DBIH, DBHH  View
}

// views declares the views of a direction in a call for rows words.
func (w *GRUDirection) views(c *Checker, in, hidden, rows int, grad bool) {
	c.floats("WIH", &w.WIH, 3*hidden*in)
	c.floats("WHH", &w.WHH, 3*hidden*hidden)
	c.floats("Gates", &w.Gates, rows*4*hidden)
	c.floats("Prev", &w.Prev, rows*hidden)
	if grad {
		c.floats("DWIH", &w.DWIH, 3*hidden*in)
		c.floats("DWHH", &w.DWHH, 3*hidden*hidden)
		c.floats("DBIH", &w.DBIH, 3*hidden)
		c.floats("DBHH", &w.DBHH, 3*hidden)
	} else {
		c.floats("BIH", &w.BIH, 3*hidden)
		c.floats("BHH", &w.BHH, 3*hidden)
	}
}

// GRUCell is one step of a GRU (see GRU) for N rows. It reads Gates [N, 4H], whose first three parts hold W_i x + b_i,
// Hidden [N, 3H] = W_h h + b_h, and Before [N, H], the state h. It writes the state after the step to Y, a copy of
// Before to Prev, and r, z, n, W_hn h + b_hn to Gates.
//
// The gradient reads these Gates, Prev, DY (optional) and Carry [N, H], the gradient of the state after the step that
// comes from later steps. It replaces Gates by the gradients of the inputs of n, r and z and of W_hn h + b_hn, in this
// order. So the last three parts are the gradient of Hidden, and the first three, n first, the gradient of W_i x + b_i.
// It replaces Carry by the part of the gradient that reaches h directly.
type GRUCell struct {
	Gradient
	N, H          int
	Gates, Hidden View
	Before, Y     View
	Prev          View
	DY, Carry     View
}

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
