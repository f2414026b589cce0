package device

// LossOut are the results every loss kernel writes.
type LossOut struct {
	Loss View // [3]: total, caption-retrieval (row) part, image-retrieval (column) part
	Grad View // [N, N]: dLoss/dS
	// For analysis (optional): the column of the hardest negative of each image and the row of the hardest negative of
	// each caption (the lowest index on ties, 0 if every cost is 0), and the hinge value there. For LUWM the negative
	// is v and the hinge value the negative polynomial; both are 0 for a skipped anchor.
	HardCaption, HardImage View // int32 [N]
	CostCaption, CostImage View // float [N]
}

func (o *LossOut) views(c *Checker, n int) {
	c.floats("Loss", &o.Loss, 3)
	c.floats("Grad", &o.Grad, n*n)
	c.optionalInts("HardCaption", &o.HardCaption, n)
	c.optionalInts("HardImage", &o.HardImage, n)
	c.optional("CostCaption", &o.CostCaption, n)
	c.optional("CostImage", &o.CostImage, n)
}

// Hinge: cs_ij = [M_ij + S_ij - S_ii]+ and ci_ij = [M_ij + S_ij - S_jj]+ with zero diagonals; Max takes the maximum
// of every row of cs and column of ci, otherwise everything is summed (the references: ContrastiveLoss). The gradient
// is 1 where the argument is ≥ 0.
type Hinge struct {
	N       int
	Scores  View
	Margin  float64 // constant margin, used when Margins is absent
	Margins View    // optional [N, N]
	Max     bool
	LossOut
}

func (a *Hinge) Views(c *Checker) {
	c.positive("N", a.N)
	c.floats("Scores", &a.Scores, a.N*a.N)
	c.optional("Margins", &a.Margins, a.N*a.N)
	a.LossOut.views(c, a.N)
}

// SemanticMargins computes the margins of LSEH from the Gram matrix of the semantic vectors: M_ij = Alpha +
// Lambda·Sim_ij, 0 on the diagonal and, with ZeroSameImage, wherever Images[i] = Captions[j] (quirks Q18 to Q20).
// Sim_ij = Gram_ij / d_i with d_i = max_j Gram_ij (1 if that is 0), or with Cosine Gram_ij / √(Gram_ii Gram_jj) (0 for
// a zero vector). Images and Captions hold the image of every pair and are normally equal; the released rule for one
// caption per image compares image i with caption j // 5 instead.
type SemanticMargins struct {
	N             int
	Gram          View // [N, N]
	Images        View // int32 [N]
	Captions      View // int32 [N]
	Alpha, Lambda float64
	Cosine        bool
	ZeroSameImage bool
	Margins       View // [N, N]
}

func (a *SemanticMargins) Views(c *Checker) {
	c.positive("N", a.N)
	c.floats("Gram", &a.Gram, a.N*a.N)
	if a.ZeroSameImage {
		c.ints("Images", &a.Images, a.N)
		c.ints("Captions", &a.Captions, a.N)
	}
	c.floats("Margins", &a.Margins, a.N*a.N)
}

// UniversalWeighting is the self-similarity polynomial loss LUWM (wayne980/PolyLoss): for each anchor with positive p <
// 1 - 1e-5 and hardest informative negative v (v + Margin > p), [P0 + P1·p + P2·p²]+ + [N0 + N1·v + N2·v²]+; the sum
// over both directions is divided by N.
type UniversalWeighting struct {
	N        int
	Scores   View
	Margin   float64
	Positive [3]float64
	Negative [3]float64
	LossOut
}

func (a *UniversalWeighting) Views(c *Checker) {
	c.positive("N", a.N)
	c.floats("Scores", &a.Scores, a.N*a.N)
	a.LossOut.views(c, a.N)
}

// CrossEntropy is the negative log likelihood of the next word at every step of packed sequences (see Packing).
// Sequence b has Lengths[b] steps, and row (t, b) of Logits [T, V] predicts Labels[b, t+1], weighted by Mask[b, t+1]:
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
