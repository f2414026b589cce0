package device

// The kernels of the generalised pooling operator (Chen, Hu, Wu, Jiang, Wang: "Learning the Best Pooling Strategy for
// Visual Semantic Embedding", CVPR 2021; woodfrog/vse_infty, lib/modules/aggr/gpo.py).

// PoolWeights turns the scores of positions into the weights of each sequence: Weights[b, t] = softmax over t <
// Lengths[b] of Scores/Temperature, and 0 for other t. Scores [T] is packed (see Packing), Weights [B, L] is not. The
// gradient reads Weights and DWeights and writes DScores.
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

// SortPool sorts every channel of every set of rows in descending order and sums it with weights: Y[b, c] = Σ_p
// Weights[K - n_b, p]·sorted_p, where sorted_0 ≥ sorted_1 ≥ … are the values of channel c in the n_b rows of item b.
// Equal values keep the order of their rows. Weights [K, K] has one row of weights for each length, the longest first.
// A NaN in a channel makes its output NaN.
//
// The rows of X [T, D] are concatenated, the rows of item 0 first, or packed (see Packing, lengths descending). Memory
// beyond the T = Σ n_b rows does not change. Ranks [T, D] keeps the place of every value in its sorted channel for the
// gradient. The gradient writes DX [T, D], a permutation of the weighted gradient, and DWeights [K, K], the sum over
// all items of one length; both are optional.
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
