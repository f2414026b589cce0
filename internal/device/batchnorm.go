package device

// BatchNorm is batch normalisation over all axes but one (specification, models.md §1.1 BatchNorm1d).
type BatchNorm interface {
	BatchNorm(BatchNormArgs)
	BatchNormGrad(BatchNormArgs)
}

// BatchNormArgs describes the normalisation of every channel of x [Outer, C, Inner] over Outer and Inner, n values:
//
//	y = Weight·(x - μ)·s + Bias    s = 1/√(σ² + Eps)
//
// With Train, μ and σ² are the mean and the biased variance of the batch, and the running statistics move in place:
// RunningMean ← (1-Momentum)·RunningMean + Momentum·μ, RunningVar likewise by the unbiased variance
// σ²·n/(n-1); of a single value by the biased one.
// Without it, μ and σ² are the running statistics, which stay. Mean [C] and InvStd [C] keep μ and s for BatchNormGrad,
// which reads X, Weight, Mean, InvStd and DY and writes DX, DWeight and DBias, each of them optional:
//
//	DBias = Σ dy    DWeight = Σ dy·x̂    x̂ = (x - μ)·s
//	DX = Weight·s·(dy - DBias/n - x̂·DWeight/n)    and without Train    DX = Weight·s·dy
type BatchNormArgs struct {
	Outer, C, Inner         int // Inner = 1 normalises the columns of a matrix
	Train                   bool
	Eps, Momentum           float64
	X, Y                    View
	Weight, Bias            View // [C]
	RunningMean, RunningVar View // [C]; written with Train
	Mean, InvStd            View // [C]
	DY, DX                  View
	DWeight, DBias          View // [C]
}
