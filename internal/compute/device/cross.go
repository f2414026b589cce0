package device

// CrossPool is how CrossScores pools the similarities u of the queries of a pair into a score.
type CrossPool uint8

// The poolings.
const (
	CrossLogSumExp CrossPool = iota // ln Σ e^(Factor·u)
	CrossMean
	CrossMaximum
	CrossSum
)

// CrossScores scores every image with every caption by cross attention between words and regions (Lee, Chen, Hua,
// Hu, He: "Stacked Cross Attention for Image-Text Matching", ECCV 2018; kuanghuei/SCAN, model.py. Max: Pan, Wu, Zhang:
// "Fine-Grained Image-Text Matching by Cross-Modal Hard Aligning Network", CVPR 2023; ppanzx/CHAN).
//
// There are B images of R regions and C captions of T = Σ Lengths words, one caption after the other without padding.
// The queries q of a pair are its words and the sources s its regions; with OverWords it is the other way round.
// With a_jk = q_j·s_k, and x = a or, with Leaky, leaky(a) of slope 0.1,
//
//	n_jk = x_jk/(‖x_·k‖ + 1e-8), the norm over the queries of the pair, or with Softmax softmax_j(x_jk)
//	w_jk = softmax_k(Lambda·n_jk)    c_j = Σ_k w_jk s_k    u_j = q_j·c_j / max(‖q_j‖‖c_j‖, 1e-8)
//
// or with Max u_j = max_k a_jk. Pool computes a score from the u of its queries. Mask is nonzero for the regions that
// an image has: the first ones, at least one. Without Mask an image has all regions. Softmax is for products whose
// exponentials need no shift.
//
// The contexts c_j need not be computed: with the Gram matrix G of the sources, q_j·c_j = Σ_k w_jk a_jk and ‖c_j‖² =
// w_j G w_jᵀ. The gradient reads DScores and writes DRegions and DWords, both optional. It may skip pairs whose
// gradient is exactly 0.
type CrossScores struct {
	Gradient
	B, R, E        int
	OverWords, Max bool
	Leaky, Softmax bool    // these and Lambda not with Max
	Lambda         float64 // at most MaxLambda
	Pool           CrossPool
	Factor         float64
	Lengths        Ints // [C], each at least 1
	Regions, Words View // [B·R, E], [T, E]
	Mask           View // [B, R], optional
	Scores         View // [B, C]

	DScores, DRegions, DWords View
}

func (a *CrossScores) Views(c *Checker) {
	c.positive("B R E captions", a.B, a.R, a.E, len(a.Lengths.Host))
	if a.Pool > CrossSum || !a.Max && !(a.Lambda > 0 && a.Lambda <= MaxLambda) {
		c.refuse("pooling %d and Lambda %v, expected a known one and a positive number of at most %v", a.Pool, a.Lambda,
			MaxLambda)
	}
	words, scores := c.lengths("Lengths", &a.Lengths, 1, anyLength), a.B*len(a.Lengths.Host)
	c.floats("Regions", &a.Regions, a.B*a.R*a.E)
	c.floats("Words", &a.Words, words*a.E)
	c.optional("Mask", &a.Mask, a.B*a.R)
	if !a.Grad {
		c.floats("Scores", &a.Scores, scores)
		return
	}
	c.floats("DScores", &a.DScores, scores)
	c.optional("DRegions", &a.DRegions, a.B*a.R*a.E)
	c.optional("DWords", &a.DWords, words*a.E)
}

// CrossScorer is implemented by devices that compute CrossScores at all sizes; others compose it, in tiles of images.
type CrossScorer interface{ CrossScores(CrossScores) bool }
