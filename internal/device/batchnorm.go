package device

// BatchNorm is batch normalisation over one axis.
type BatchNorm interface {
	// BatchNorm computes y = w·(x - μ)/√(σ² + ε) + b for each channel.
	BatchNorm(BatchNormArgs)
	// BatchNormGrad computes the gradients from x, the saved statistics and dy.
	BatchNormGrad(BatchNormArgs)
}

// BatchNormArgs: X, Y [Outer, C, Inner]; the statistics of a channel are over Outer and Inner; Weight, Bias, RunningMean,
// RunningVar [C] (torch.nn.BatchNorm1d). With Train, μ and σ² are the mean and the
// biased variance of X, and the running statistics r ← (1 - Momentum)·r + Momentum·batch are updated in place, the variance
// with the unbiased one (n/(n-1); of a single value the biased), unless the variance is not finite. Otherwise μ and σ² are the running statistics, which
// stay as they are. Mean and InvStd [C] keep μ and 1/√(σ² + ε) for BatchNormGrad.
//
// Pads rows more, all alike and of the value Pad [C], can take part in the statistics without being stored: the zero padding rows
// behind a linear layer have the value of its bias (quirk Q4 of VSE-infinity). They have no output, but through the
// statistics they have a gradient: DPad [C], the sum over all of them. Outer may then be 0. Inner is 1 where Pads > 0.
//
// BatchNormGrad reads X, Weight, Mean, InvStd, DY and writes DX, DWeight, DBias and DPad, each optional.
type BatchNormArgs struct {
	Outer, C, Inner         int
	Eps, Momentum           float64
	Train                   bool
	X, Y                    View
	Weight, Bias            View
	RunningMean, RunningVar View
	Mean, InvStd            View
	DY, DX, DWeight, DBias  View

	Pads      int
	Pad, DPad View

	// Counts [B], where present, are the rows of every item, Outer their sum and Pads, where Pad is present, what all lack of the longest. A Recorder
	// reads Outer and Pads from them in device memory.
	Counts Ints
}
