package device

// The kernels of networks that compare every image with every caption (Diao, Zhang, Ma, Lu: "Similarity Reasoning and
// Filtration for Image-Text Matching", AAAI 2021; Paranioar/SGRAF, model.py), for B images of R regions and C captions
// of T = Σ Lengths words. The words are one caption after the other, without padding.
//
// A node is a word of a caption, or the whole caption, which comes before its words. The nodes of caption c are n_c =
// L_c + 1 rows from row Σ_{b<c} n_b on, P = T + C rows for each image, image after image.
//
// Gradients may skip a pair whose gradient is exactly 0 in every element; they read nothing else of the pair. So
// kernels with Wanted [B·C] may skip pairs whose entry is 0: their results are arbitrary, but finite in the Out of
// GraphReason with First.

// MaxLambda is the largest inverse temperature of PairAttention: e^MaxLambda is a float32.
const MaxLambda = 80.0

// PairAttention turns the products of all words and regions into attention weights. With the product a_jk of word j and
// region k, one row of Scores per word [T, B·R], and x = leaky(a) of slope 0.1 below 0,
//
//	OverWords false:  Weights_jk = softmax_k (Lambda · x_jk / (‖x_·k‖ + 1e-8)), the norm over the words of the caption
//	OverWords true:   Weights_jk = softmax_j (Lambda · x_jk / (‖x_j·‖ + 1e-8)), the norm over the regions of the image
//
// where softmax_k runs over the regions of the image and softmax_j over the words of the caption. So words attend to
// regions (SGRAF, text graph of GSMN), or regions to words (image graph of GSMN). The gradient reads Scores, Weights
// and DWeights and writes DScores, which may be DWeights.
type PairAttention struct {
	Gradient
	B, R              int
	Lambda            float64 // at most MaxLambda
	OverWords         bool
	Lengths           Ints // [C]
	Scores, Weights   View // [T, B·R]
	DWeights, DScores View
}

func (a *PairAttention) Views(c *Checker) {
	c.positive("B R", a.B, a.R)
	if !(a.Lambda > 0 && a.Lambda <= MaxLambda) {
		c.refuse("Lambda %v, expected a positive number of at most %v", a.Lambda, MaxLambda)
	}
	n := c.lengths("Lengths", &a.Lengths, 0, anyLength) * a.B * a.R
	c.floats("Scores", &a.Scores, n)
	c.floats("Weights", &a.Weights, n)
	if a.Grad {
		c.floats("DWeights", &a.DWeights, n)
		c.floats("DScores", &a.DScores, n)
	}
}

// Similarities computes the similarity vectors of all images with all words, or with all captions. For image i and row
// j,
//
//	u_ij = l2(Σ_k Weights_j,ik V_ik)    s_ij = l2(W (u_ij - c_j)∘(u_ij - c_j) + Bias)
//
// with l2(x) = x/(‖x‖ + 1e-8). The rows are the words [T, E], or with Global the captions [C, E]; then V is [B, E],
// u_ij = V_i without normalisation, and Weights and R are not used. s_ij goes to the node of word or caption j in Nodes
// [B·P, S], whose other rows do not change. For the gradient, Norms [B·T] or [B·C] keeps ‖W (…) + Bias‖, and Contexts
// [B·T] keeps ‖Σ_k Weights_j,ik V_ik‖. Filter is used if present.
//
// The gradient reads DNodes and all of these but Bias, which Nodes and Norms contain. It writes DImages, DRows,
// DWeights, DW and DBias.
type Similarities struct {
	Gradient
	B, R, E, S int
	Global     bool
	Lengths    Ints // [C]
	Images     View // [B, R, E], or [B, E]
	Weights    View // [T, B·R]
	Rows       View // [T, E] or [C, E]
	W, Bias    View // [S, E], [S]
	Nodes      View // [B·P, S]
	Norms      View // [B·T] or [B·C]
	Contexts   View // [B·T]; not with Global
	Wanted     View // [B·C] or absent; not of the gradient
	Filter     Filter

	DNodes, DImages, DRows, DWeights, DW, DBias View
}

func (a *Similarities) Views(c *Checker) {
	c.positive("B E S", a.B, a.E, a.S)
	captions, words := len(a.Lengths.Host), c.lengths("Lengths", &a.Lengths, 0, anyLength)
	rows, images, nodes := captions, a.B*a.E, a.B*(words+captions)
	if !a.Global {
		c.positive("R", a.R)
		rows, images = words, a.B*a.R*a.E
		c.floats("Weights", &a.Weights, words*a.B*a.R)
		c.floats("Contexts", &a.Contexts, a.B*words)
	}
	c.floats("Images", &a.Images, images)
	c.floats("Rows", &a.Rows, rows*a.E)
	c.floats("W", &a.W, a.S*a.E)
	c.floats("Nodes", &a.Nodes, nodes*a.S)
	c.floats("Norms", &a.Norms, a.B*rows)
	if a.Filter.Present() {
		a.Filter.views(c, a.S, nodes, a.B*captions, a.Grad)
	}
	if !a.Grad {
		c.floats("Bias", &a.Bias, a.S)
		c.optional("Wanted", &a.Wanted, a.B*captions)
		return
	}
	if !a.Filter.Present() {
		c.floats("DNodes", &a.DNodes, nodes*a.S)
	}
	if !a.Global {
		c.floats("DWeights", &a.DWeights, words*a.B*a.R)
	}
	c.floats("DImages", &a.DImages, images)
	c.floats("DRows", &a.DRows, rows*a.E)
	c.floats("DW", &a.DW, a.S*a.E)
	c.floats("DBias", &a.DBias, a.S)
}

// Filter is a linear layer on similarity vectors. Its results and the vectors are the input of a filtration (Filtrate):
//
//	z_j = W·s_j + Bias    ds_j = Weights_j DSums_p + DLogits_j W    DW = Σ_j DLogits_j s_j
//
// for node j of pair p. The gradient ds is computed from its factors, instead of DNodes. DW is the sum over the rows of
// one call.
type Filter struct {
	W, Bias        View // [S], [1]
	Logits         View // [B·P]: z
	Weights        View // [B·P]
	DSums, DLogits View // [B·C, S], [B·P]
	DW             View // [S]
}

// views declares the views of a layer on vectors of the given size.
func (f *Filter) views(c *Checker, size, nodes, pairs int, grad bool) {
	c.floats("Filter.W", &f.W, size)
	c.floats("Filter.Bias", &f.Bias, 1)
	c.floats("Filter.Logits", &f.Logits, nodes)
	if grad {
		c.floats("Filter.Weights", &f.Weights, nodes)
		c.floats("Filter.DSums", &f.DSums, pairs*size)
		c.floats("Filter.DLogits", &f.DLogits, nodes)
		c.floats("Filter.DW", &f.DW, size)
	}
}

// Present reports whether there is a filter.
func (f *Filter) Present() bool { return f.W.Present() }

// GraphReason does a step of reasoning on the graph of every pair. For the nodes X [n, S] of a pair,
//
//	Y = X M + v    E = softmax(Y Xᵀ) X    Out = ReLU(E Wᵀ + Bias)
//
// with softmax along the rows. With First, only node 0 of every pair is computed and Out is [B·C, S], otherwise
// [B·P, S]. Y [B·P, S] is kept for the gradient, which recomputes an absent Y; with First it is not used. With Operand,
// only that gradient reads Y. The gradient reads X, Y, Out and DOut and writes DX, DM, DV, DW and DBias.
type GraphReason struct {
	Gradient
	B, S    int
	First   bool
	Lengths Ints // [C]
	X       View // [B·P, S]
	M, V    View // [S, S], [S]
	W, Bias View // [S, S], [S]
	Y, Out  View
	Wanted  View // [B·C] or absent; not of the gradient
	Operand bool

	DOut, DX, DM, DV, DW, DBias View
}

func (a *GraphReason) Views(c *Checker) {
	c.positive("B S", a.B, a.S)
	captions, words := len(a.Lengths.Host), c.lengths("Lengths", &a.Lengths, 0, anyLength)
	nodes, square := a.B*(words+captions)*a.S, a.S*a.S
	out := nodes
	if a.First {
		out = a.B * captions * a.S
	} else {
		c.optional("Y", &a.Y, nodes)
	}
	c.floats("X", &a.X, nodes)
	c.floats("M", &a.M, square)
	c.floats("V", &a.V, a.S)
	c.floats("W", &a.W, square)
	c.floats("Out", &a.Out, out)
	if a.Grad {
		c.floats("DOut", &a.DOut, out)
		c.floats("DX", &a.DX, nodes)
		c.floats("DM", &a.DM, square)
		c.floats("DV", &a.DV, a.S)
		c.floats("DW", &a.DW, square)
		c.floats("DBias", &a.DBias, a.S)
	} else {
		c.floats("Bias", &a.Bias, a.S)
		c.optional("Wanted", &a.Wanted, a.B*captions)
	}
}

// Filtrate sums the nodes of every pair with attention weights. For the nodes X [n, S] of a pair and their logits z
// (Filter),
//
//	h = σ(BN(z))    a = h/(Σ|h| + 1e-8)    Out = l2(Σ_j a_j X_j)
//
// BN is batch normalisation of one channel. With Train, its statistics are over one caption with all images, B·n_c
// values, and the running statistics are updated once per caption, in order (quirk Q11). Weights [B·P] keeps a, Mean
// and InvStd [C] the statistics, and Norms [B·C] the norm of the sum.
//
// The gradient reads these, Out and DOut. It writes the gradient of X as its factors, dX_j = Weights_j DSums_p +
// DLogits_j W (Filter), with DSums 0 for pairs without gradient, and DBias = Σ DLogits, DGamma and DBeta.
type Filtrate struct {
	Gradient
	B, S          int
	Train         bool
	Eps, Momentum float64
	Lengths       Ints // [C]
	X, Logits     View // [B·P, S], [B·P]
	Gamma, Beta   View // [1]
	RunningMean   View // [1]
	RunningVar    View // [1]
	Out           View // [B·C, S]

	Weights, Mean, InvStd, Norms               View
	DOut, DSums, DLogits, DBias, DGamma, DBeta View
}

func (a *Filtrate) Views(c *Checker) {
	c.positive("B S", a.B, a.S)
	captions, words := len(a.Lengths.Host), c.lengths("Lengths", &a.Lengths, 0, anyLength)
	nodes, pairs := a.B*(words+captions), a.B*captions
	c.floats("X", &a.X, nodes*a.S)
	c.floats("Logits", &a.Logits, nodes)
	c.floats("Gamma", &a.Gamma, 1)
	c.floats("Beta", &a.Beta, 1)
	c.floats("Out", &a.Out, pairs*a.S)
	c.floats("Weights", &a.Weights, nodes)
	c.floats("Mean", &a.Mean, captions)
	c.floats("InvStd", &a.InvStd, captions)
	c.floats("Norms", &a.Norms, pairs)
	if a.Grad {
		c.floats("DOut", &a.DOut, pairs*a.S)
		c.floats("DSums", &a.DSums, pairs*a.S)
		c.floats("DLogits", &a.DLogits, nodes)
		c.floats("DBias", &a.DBias, 1)
		c.floats("DGamma", &a.DGamma, 1)
		c.floats("DBeta", &a.DBeta, 1)
	} else {
		c.floats("RunningMean", &a.RunningMean, 1)
		c.floats("RunningVar", &a.RunningVar, 1)
	}
}

// FiltrateSimilarities computes Similarities of Words and of Captions, both with Filter, and then Filtrate of their
// nodes without Train, where no gradient follows. Only Out is defined afterwards.
type FiltrateSimilarities struct {
	Words, Captions Similarities
	Filtrate
}

func (a *FiltrateSimilarities) Views(c *Checker) {
	a.Words.Views(c)
	a.Captions.Views(c)
	a.Filtrate.Views(c)
}
