package device

import "cmp"

// Decoder runs the steps of a decoder with H states and A attention units over R regions of E features each. From the
// states h = Initial_b, for the steps t of every sequence b,
//
//	Query_t = Attend h    Weights_t = softmax_r Score·tanh(Keys_br + Query_t)
//	Context_t = drop(Σ_r Weights_tr Regions_br)    States_t = h = GRU(Gates_t + WIH Context_t, h)
//
// with GRU as in GRUCell. Attend and WIH are columns of matrices whose rows are LDAttend and LDWIH elements apart; 0
// means dense. Rows are packed by Lengths, which are not Bounded.
//
// Gates hold W_i x + b_i of the words; the kernel replaces them by r, z, n and W_hn h + b_hn. The gradient replaces
// these by the gradients of n, r, z and W_hn h + b_hn, in this order. It reads the other saved values and DStates, and
// writes DInitial, DQuery, DKeys, DRegions, and DVector with one row per sequence, as in AdditiveAttention.
type Decoder struct {
	Gradient
	R, H, A, E                    int
	Lengths                       Ints
	Keys, Regions, Initial, Score View // [B, R, A], [B, R, E], [B, H], [A]
	Attend, WHH, WIH, BHH         View // [A, H], [3H, H], [3H, E], [3H]
	LDAttend, LDWIH               int
	Drop                          DropoutParams

	Gates, Prev, Context, Weights, Query View // [T, 4H], [T, H], [T, E], [T, R], [T, A]
	States                               View // [T, H]

	DStates, DInitial        View // [T, H], [B, H]
	DQuery                   View // [T, A]
	DKeys, DRegions, DVector View // [B, R, A], [B, R, E], [B, A]
}

func (a *Decoder) Views(c *Checker) {
	c.positive("R H A E", a.R, a.H, a.A, a.E)
	a.LDAttend, a.LDWIH = cmp.Or(a.LDAttend, a.H), cmp.Or(a.LDWIH, a.E)
	if a.LDAttend < a.H || a.LDWIH < a.E {
		c.refuse("rows of Attend %d and of WIH %d apart, expected at least %d and %d", a.LDAttend, a.LDWIH, a.H, a.E)
	}
	b, rows := len(a.Lengths.Host), c.packed(&a.Lengths, anyLength)
	a.Drop.views(c, "Drop.Step", "Drop.Rows", rows)
	c.floats("Keys", &a.Keys, b*a.R*a.A)
	c.floats("Regions", &a.Regions, b*a.R*a.E)
	c.floats("Score", &a.Score, a.A)
	c.floats("Attend", &a.Attend, (a.A-1)*a.LDAttend+a.H)
	c.floats("WHH", &a.WHH, 3*a.H*a.H)
	c.floats("WIH", &a.WIH, (3*a.H-1)*a.LDWIH+a.E)
	c.floats("Gates", &a.Gates, rows*4*a.H)
	c.floats("Prev", &a.Prev, rows*a.H)
	c.floats("Weights", &a.Weights, rows*a.R)
	c.floats("Query", &a.Query, rows*a.A)
	if !a.Grad {
		c.floats("Initial", &a.Initial, b*a.H)
		c.floats("BHH", &a.BHH, 3*a.H)
		c.floats("Context", &a.Context, rows*a.E)
		c.floats("States", &a.States, rows*a.H)
		return
	}
	c.floats("DStates", &a.DStates, rows*a.H)
	c.floats("DInitial", &a.DInitial, b*a.H)
	c.floats("DQuery", &a.DQuery, rows*a.A)
	c.floats("DKeys", &a.DKeys, b*a.R*a.A)
	c.floats("DRegions", &a.DRegions, b*a.R*a.E)
	c.floats("DVector", &a.DVector, b*a.A)
}
