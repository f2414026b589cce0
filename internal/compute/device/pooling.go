package device

// The kernels of the generalised pooling operator (Chen, Hu, Wu, Jiang, Wang: "Learning the Best Pooling Strategy for
// Visual Semantic Embedding", CVPR 2021; woodfrog/vse_infty, lib/modules/aggr/gpo.py).

// PoolWeights turns the scores of positions into the weights of each sequence.
// The gradient is DScores from Weights and DWeights.
//
// PoolWeights: Weights[b, t] = softmax over t < length b of Scores/Temperature, 0 after it. Scores [T] is packed (see
// Packing), Weights [B, L] is not.
type PoolWeights struct {
	Gradient
	L           int
	Temperature float64
	Lengths     Ints // [B], descending, each at most L
	Scores      View // [T]
	Weights     View // [B, L]

	DWeights, DScores View
}

func (a *PoolWeights) Views(c *Checker) {
	c.positive("L", a.L)
	if !(a.Temperature > 0) {
		c.refuse("a temperature of %v, expected a positive one", a.Temperature)
	}
	rows := c.packed(&a.Lengths, a.L)
	c.floats("Weights", &a.Weights, len(a.Lengths.Host)*a.L)
	if a.Grad {
		c.floats("DWeights", &a.DWeights, len(a.Lengths.Host)*a.L)
		c.floats("DScores", &a.DScores, rows)
	} else {
		c.floats("Scores", &a.Scores, rows)
	}
}

// SortPool sorts every channel of every set of rows in descending order and sums it with weights.
// The gradient is with respect to the rows and of the weights.
//
// SortPool: Y[b, c] = Σ_p Weights[K - n_b, p]·sorted_p, where sorted_0 ≥ sorted_1 ≥ … are the values of channel c
// in the n_b rows of item b. Equal values keep the order of their rows. Weights [K, K] has one row of weights for each
// length, the longest first.
//
// The rows of X [T, D] are concatenated, the rows of item 0 first, or packed (see Packing, lengths descending). Memory
// beyond the T = Σ n_b rows is left alone. Ranks [T, D] keeps the place of every value in its sorted channel for the
// gradient, which writes DX [T, D] and DWeights [K, K] (each optional): a permutation of the weighted gradient, and the
// sum over all items of one length. A NaN in a channel makes its output NaN.
type SortPool struct {
	Gradient
	D, K    int
	Lengths Ints // [B], each between 1 and K
	Packed  bool
	X       View
	Weights View
	Y       View // [B, D]
	Ranks   View // int32

	DY, DX, DWeights View
}

func (a *SortPool) Views(c *Checker) {
	c.positive("D K", a.D, a.K)
	items, rows := len(a.Lengths.Host), 0
	if a.Packed {
		rows = c.packed(&a.Lengths, a.K)
	} else {
		rows = c.lengths("Lengths", &a.Lengths, 1, a.K)
	}
	c.floats("X", &a.X, rows*a.D)
	c.floats("Weights", &a.Weights, a.K*a.K)
	c.ints("Ranks", &a.Ranks, rows*a.D)
	if a.Grad {
		c.floats("DY", &a.DY, items*a.D)
		c.optional("DX", &a.DX, rows*a.D)
		c.optional("DWeights", &a.DWeights, a.K*a.K)
	} else {
		c.floats("Y", &a.Y, items*a.D)
	}
}
