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
	// UnpackWords copies the rows of packed captions (see Packing) to captions one after the other; back copies the other way.
	UnpackWords(dst, src View, lengths Ints, d int, back bool)
}

// GatedPoolArgs: for the rows r of item b,
//
//	e_r = W·(L_r ∘ G_b)    Weights = softmax e    Out_b = Σ_r Weights_r X_r
//
// A constant added to e changes nothing, so there is no bias. The gradient reads the inputs, Weights and DOut and writes DL, DG, DX and
// DW [B, D], whose sum over the items is the gradient of W.
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
