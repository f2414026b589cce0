package device

// CrossEntropy describes the negative log likelihood of the next word at every step of packed sequences (see
// Packing): sequence b has Lengths[b] steps, and row (t, b) of Logits [T, V] predicts Labels[b, t+1], weighted by
// Mask[b, t+1]:
//
//	Loss = Scale · Σ_(t,b) Mask[b,t+1]·(Norm_(t,b) - Logits_(t,b)[Labels[b,t+1]])    Norm = log Σ_v exp Logits_v
//
// Norm [T] is kept for the gradient, which reads DLoss [1] and writes DLogits, which may be Logits.
type CrossEntropy struct {
	Gradient
	L, V         int  // columns of Labels and Mask; no sequence has more than L-1 steps
	Labels, Mask Ints // [B, L]
	Lengths      Ints // [B], descending, each at least 1
	Scale        float64
	Logits, Norm View
	Loss         View // [1]
	DLoss        View
	DLogits      View
}

// Views implements Kernel.
func (a *CrossEntropy) Views(c *Checker) {
	c.positive("L V", a.L, a.V)
	batch, rows := len(a.Lengths.Host), c.packed(&a.Lengths, a.L-1)
	c.ints("Labels", &a.Labels.View, batch*a.L)
	c.ints("Mask", &a.Mask.View, batch*a.L)
	c.floats("Logits", &a.Logits, rows*a.V)
	c.floats("Norm", &a.Norm, rows)
	if a.Grad {
		c.floats("DLoss", &a.DLoss, 1)
		c.floats("DLogits", &a.DLogits, rows*a.V)
	} else {
		c.floats("Loss", &a.Loss, 1)
	}
}
