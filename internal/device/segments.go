package device

// Segments are kernels over sets of rows: the rows of item 0, then those of item 1, ..., Counts of them.
type Segments interface {
	// SegmentMeans computes dst[b] = the mean of the rows of item b; x has D columns.
	SegmentMeans(dst, x View, counts Ints, d int)
	// SegmentMeansGrad spreads the gradient [B, D] over the rows.
	SegmentMeansGrad(dx, ddst View, counts Ints, d int)
	// GatedPool sums the rows of every item with weights.
	GatedPool(GatedPoolArgs)
	// GatedPoolGrad computes its gradients.
	GatedPoolGrad(GatedPoolArgs)
	// UnpackWords copies the rows of packed captions (see Packing) to captions one after the other; back copies the
	// other way.
	UnpackWords(dst, src View, lengths Ints, d int, back bool)
}

// SegmentMeans declares the views of SegmentMeans and SegmentMeansGrad.
func (c *Checker) SegmentMeans(means, rows *View, counts *Ints, d int) {
	c.positive("d", d)
	n := c.lengths("counts", counts, 1, anyLength)
	c.floats("means", means, len(counts.Host)*d)
	c.floats("rows", rows, n*d)
}

// UnpackWords declares the views of that kernel.
func (c *Checker) UnpackWords(dst, src *View, lengths *Ints, d int) {
	c.positive("d", d)
	n := c.packed("lengths", lengths, anyLength)
	c.floats("dst", dst, n*d)
	c.floats("src", src, n*d)
}

// GatedPoolArgs: for the rows r of item b,
//
//	e_r = W·(L_r ∘ G_b)    Weights = softmax e    Out_b = Σ_r Weights_r X_r
//
// A constant added to e changes nothing, so there is no bias. The gradient reads the inputs, Weights and DOut and
// writes DL, DG, DX and DW [B, D], whose sum over the items is the gradient of W.
type GatedPoolArgs struct {
	D       int
	Counts  Ints // [B], each at least 1
	L, X    View // [Σ Counts, D]
	G       View // [B, D]
	W       View // [D]
	Weights View // [Σ Counts]
	Out     View // [B, D]

	DOut, DL, DG, DX, DW View
}

// Views declares the views of GatedPool and GatedPoolGrad.
func (a *GatedPoolArgs) Views(c *Checker) {
	c.positive("D", a.D)
	items, rows := len(a.Counts.Host), c.lengths("Counts", &a.Counts, 1, anyLength)
	c.floats("L", &a.L, rows*a.D)
	c.floats("X", &a.X, rows*a.D)
	c.floats("G", &a.G, items*a.D)
	c.floats("W", &a.W, a.D)
	c.floats("Weights", &a.Weights, rows)
	if c.Grad() {
		c.floats("DOut", &a.DOut, items*a.D)
		c.floats("DL", &a.DL, rows*a.D)
		c.floats("DG", &a.DG, items*a.D)
		c.floats("DX", &a.DX, rows*a.D)
		c.floats("DW", &a.DW, items*a.D)
	} else {
		c.floats("Out", &a.Out, items*a.D)
	}
}
