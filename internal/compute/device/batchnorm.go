package device

// BatchNorm computes y = w·(x - μ)/√(σ² + ε) + b for each channel (torch.nn.BatchNorm1d), for X, Y [Outer, C, Inner]
// and Weight, Bias, RunningMean, RunningVar [C]. The statistics of a channel are over Outer and Inner. With Train, μ
// and σ² are the mean and the biased variance of X. The running statistics r ← (1 - Momentum)·r + Momentum·batch are
// then updated in place unless the variance is not finite; their variance is the unbiased one, or the biased one of a
// single value. Without Train, μ and σ² are the running statistics, which do not change. Mean and InvStd [C] keep μ and
// 1/√(σ² + ε) for the gradient.
//
// Pads rows more, all with the value Pad [C], take part in the statistics without being stored: zero padding after a
// linear layer has the value of its bias (quirk Q4 of VSE-infinity). These rows have no output, but a gradient through
// the statistics: DPad [C] is the sum over all of them. Inner is 1 where Pads > 0, and Outer may then be 0.
//
// Plus, if present, is added to the result: a residual connection, whose gradient is DY.
//
// The gradient reads X, Weight, Mean, InvStd and DY and writes DX, DWeight, DBias and DPad, each optional.
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

	// Counts [B], if present, are the rows of every item: Outer is their sum, and Pads, where Pad is present, is the
	// number of rows that would make all items as long as the longest. A Recorder computes Outer and Pads from the
	// counts in device memory.
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
