package device

// Pooling are the kernels of the generalised pooling operator (Chen, Hu, Wu, Jiang, Wang: "Learning the Best Pooling
// Strategy for Visual Semantic Embedding", CVPR 2021; woodfrog/vse_infty, lib/modules/aggr/gpo.py).
type Pooling interface {
	// Combine computes dst = Alpha·a + Beta·b; b may be absent, and dst may be a or b.
	Combine(dst, a, b View, alpha, beta float64)
	// PoolWeights turns the scores of positions into the weights of each sequence.
	PoolWeights(PoolWeightsArgs)
	// PoolWeightsGrad computes DScores from Weights and DWeights.
	PoolWeightsGrad(PoolWeightsArgs)
	// SortPool sorts every channel of every set of rows in descending order and sums it with weights.
	SortPool(SortPoolArgs)
	// SortPoolGrad computes the gradients of the rows and of the weights.
	SortPoolGrad(SortPoolArgs)
}

// PoolWeightsArgs: Weights[b, t] = softmax over t < length b of Scores/Temperature, 0 behind it. Scores [T] is packed (see
// Packing), Weights [B, L] is not.
type PoolWeightsArgs struct {
	L           int
	Temperature float64
	Lengths     Ints // [B], descending, each at most L
	Scores      View // [T]
	Weights     View // [B, L]

	DWeights, DScores View
}

// SortPoolArgs: Y[b, c] = Σ_p Weights[K - n_b, p]·sorted_p, where sorted_0 ≥ sorted_1 ≥ … are the values of channel c in the n_b rows of
// item b. Equal values keep the order of their rows. Weights [K, K] has one row of weights for each length, the longest
// first.
//
// The rows of X [T, D] are concatenated, those of item 0 first, or packed (see Packing, lengths descending). Memory
// beyond the T = Σ n_b rows is left alone. Ranks [T, D] keeps the place of every value in its sorted channel for
// SortPoolGrad, which writes DX [T, D] and DWeights [K, K] (each optional): a permutation of the weighted gradient,
// and the sum over all items of one length. A NaN in a channel makes its output NaN.
type SortPoolArgs struct {
	D, K    int
	Lengths Ints // [B], each between 1 and K
	Packed  bool
	X       View
	Weights View
	Y       View // [B, D]
	Ranks   View // int32

	DY, DX, DWeights View
}
