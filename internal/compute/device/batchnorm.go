package device

// BatchNorm computes y = w·(x - μ)/√(σ² + ε) + b for each channel.
// The gradient is the gradients from x, the saved statistics and dy.
//
// BatchNorm: X, Y [Outer, C, Inner]; the statistics of a channel are over Outer and Inner; Weight, Bias,
// RunningMean, RunningVar [C] (torch.nn.BatchNorm1d). With Train, μ and σ² are the mean and the biased variance of X,
// and the running statistics r ← (1 - Momentum)·r + Momentum·batch are updated in place, the variance with the unbiased
// one (n/(n-1); of a single value the biased), unless the variance is not finite. Otherwise μ and σ² are the running
// statistics, which stay as they are. Mean and InvStd [C] keep μ and 1/√(σ² + ε) for the gradient.
//
// Pads rows more, all alike and of the value Pad [C], can take part in the statistics without being stored: the zero
// padding rows after a linear layer have the value of its bias (quirk Q4 of VSE-infinity). They have no output, but
// through the statistics they have a gradient: DPad [C], the sum over all of them. Outer may then be 0. Inner is 1
// where Pads > 0.
//
// Plus, where present, is added to the result: a residual connection, whose gradient is DY.
//
// The gradient reads X, Weight, Mean, InvStd, DY and writes DX, DWeight, DBias and DPad, each optional.
type BatchNorm struct {
	Gradient
	Outer, C, Inner         int
	Eps, Momentum           float64
	Train                   bool
	X, Y, Plus              View
	Weight, Bias            View
	RunningMean, RunningVar View
	Mean, InvStd            View
	DY, DX, DWeight, DBias  View

	Pads      int
	Pad, DPad View

	// Counts [B], where present, are the rows of every item, Outer their sum and Pads, where Pad is present, what all
	// lack of the longest. A Recorder reads Outer and Pads from them in device memory.
	Counts Ints
}

func (a *BatchNorm) Views(c *Checker) {
	c.positive("C Inner Outer+Pads", a.C, a.Inner, a.Outer+a.Pads)
	if a.Outer < 0 || a.Pads < 0 || a.Pads > 0 && a.Inner != 1 {
		c.refuse("outer %d, inner %d and %d padding rows", a.Outer, a.Inner, a.Pads)
	}
	n := a.Outer * a.C * a.Inner
	c.floats("X", &a.X, n)
	c.floats("Weight", &a.Weight, a.C)
	c.floats("Mean", &a.Mean, a.C)
	c.floats("InvStd", &a.InvStd, a.C)
	if a.Pads > 0 {
		c.floats("Pad", &a.Pad, a.C)
	} else {
		c.optional("Pad", &a.Pad, a.C)
	}
	c.optionalInts("Counts", &a.Counts.View, len(a.Counts.Host))
	if a.Grad {
		c.floats("DY", &a.DY, n)
		c.optional("DX", &a.DX, n)
		c.optional("DWeight", &a.DWeight, a.C)
		c.optional("DBias", &a.DBias, a.C)
		c.optional("DPad", &a.DPad, a.C)
	} else {
		c.floats("Y", &a.Y, n)
		c.optional("Plus", &a.Plus, n)
		c.floats("Bias", &a.Bias, a.C)
		c.floats("RunningMean", &a.RunningMean, a.C)
		c.floats("RunningVar", &a.RunningVar, a.C)
	}
}
