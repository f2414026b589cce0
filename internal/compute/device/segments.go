package device

// The segments of a matrix are the rows of item 0, then the rows of item 1, …, Counts of them.

// SegmentMeans computes the mean of the rows of every item, Means [B, D] of Rows [Σ Counts, D]. The gradient reads
// Means as the gradient of the means and writes Rows as the gradient of the rows.
type SegmentMeans struct {
	Gradient
	Means, Rows View
	Counts      Ints
	D           int
}

func (a *SegmentMeans) Views(c *Checker) {
	c.positive("D", a.D)
	n := c.lengths("Counts", &a.Counts, 1, anyLength)
	c.floats("Means", &a.Means, len(a.Counts.Host)*a.D)
	c.floats("Rows", &a.Rows, n*a.D)
}

// UnpackWords copies the rows of packed captions (see Packing), of D values each, to concatenated captions. With Back
// it copies in the other direction.
type UnpackWords struct {
	Dst, Src View
	Lengths  Ints
	D        int
	Back     bool
}

func (a *UnpackWords) Views(c *Checker) {
	c.positive("D", a.D)
	n := c.packed(&a.Lengths, anyLength)
	c.floats("Dst", &a.Dst, n*a.D)
	c.floats("Src", &a.Src, n*a.D)
}

// GatedPool sums the rows of every item with weights. For the rows r of item b,
//
//	e_r = W·(L_r ∘ G_b)    Weights = softmax e    Out_b = Σ_r Weights_r X_r
//
// There is no bias, because a constant added to e changes nothing. The gradient reads the inputs, Weights and DOut and
// writes DL, DG, DX and DW [B, D]; the sum of DW over the items is the gradient of W.
type GatedPool struct {
	Gradient
	D       int
	Counts  Ints // [B], each at least 1
	L, X    View // [Σ Counts, D]
	G       View // [B, D]
	W       View // [D]
	Weights View // [Σ Counts]
	Out     View // [B, D]

	DOut, DL, DG, DX, DW View
}

func (a *GatedPool) Views(c *Checker) {
	c.positive("D", a.D)
	items, rows := len(a.Counts.Host), c.lengths("Counts", &a.Counts, 1, anyLength)
	c.floats("L", &a.L, rows*a.D)
	c.floats("X", &a.X, rows*a.D)
	c.floats("G", &a.G, items*a.D)
	c.floats("W", &a.W, a.D)
	c.floats("Weights", &a.Weights, rows)
	if a.Grad {
		c.floats("DOut", &a.DOut, items*a.D)
		c.floats("DL", &a.DL, rows*a.D)
		c.floats("DG", &a.DG, items*a.D)
		c.floats("DX", &a.DX, rows*a.D)
		c.floats("DW", &a.DW, items*a.D)
	} else {
		c.floats("Out", &a.Out, items*a.D)
	}
}
