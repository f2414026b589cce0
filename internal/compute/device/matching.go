package device

import "slices"

// The kernels of graph-structured matching (Liu, Mao, Zhang, Xie, Wang, Zhang: "Graph Structured Network for Image-Text
// Matching", CVPR 2020; CrossmodalGroup/GSMN, model.py and layers.py), for B images of R regions and C captions of T =
// Σ Lengths words. The words are one caption after the other, without padding.
//
// A node is a region together with a caption, or a word together with an image. The nodes of the words are T rows for
// each image, image after image. The nodes of the regions are R rows for each pair, pair (i, c) at (i·C + c)·R, like
// captions of R words each. Gradients may skip pairs without gradient, as in pairs.go.

// BlockMatch compares every node with its context, block by block. With the attention weights of words over regions, β,
// and of regions over words, α, both with one row per word, and the block x^b of E/Blocks values of a vector,
//
//	WordMatch_itb   = cos(w_t^b, Σ_k β_t,ik v_ik^b)
//	RegionMatch_ikb = cos(v_ik^b, Σ_t α_t,ik w_t^b)    t over the words of a caption
//
// with cos(x, y) = x·y / max(‖x‖‖y‖, 1e-8). The contexts need not be computed: with the products A_t,ik^b =
// w_t^b·v_ik^b and the Gram matrices G of the blocks of a caption or an image, the numerators are Σ β A and Σ α A, and
// the squared norms of the contexts β G βᵀ and α G αᵀ. WordNorm and RegionNorm keep the norms.
//
// The gradient reads the results of the forward kernel, DWordMatch and DRegionMatch, and writes DWords, DRegions,
// DWordAttention and DRegionAttention. The constant 1e-8 has no gradient.
type BlockMatch struct {
	Gradient
	B, R, E, Blocks int
	Lengths         Ints // [C]
	Words           View // [T, E]
	Regions         View // [B·R, E]
	WordAttention   View // β [T, B·R]
	RegionAttention View // α [T, B·R]

	WordMatch, WordNorm     View // [B·T, Blocks]
	RegionMatch, RegionNorm View // [B·C·R, Blocks]

	DWordMatch, DRegionMatch         View
	DWords, DRegions                 View
	DWordAttention, DRegionAttention View
}

func (a *BlockMatch) Views(c *Checker) {
	captions, all := len(a.Lengths.Host), a.B*a.R
	c.positive("B R E Blocks captions", a.B, a.R, a.E, a.Blocks, captions)
	if a.E%a.Blocks != 0 {
		c.refuse("vectors of %d values in %d blocks, expected a multiple", a.E, a.Blocks)
	}
	words := c.lengths("Lengths", &a.Lengths, 1, anyLength)
	c.floats("Words", &a.Words, words*a.E)
	c.floats("Regions", &a.Regions, all*a.E)
	c.floats("WordAttention", &a.WordAttention, words*all)
	c.floats("RegionAttention", &a.RegionAttention, words*all)
	c.floats("WordMatch", &a.WordMatch, a.B*words*a.Blocks)
	c.floats("WordNorm", &a.WordNorm, a.B*words*a.Blocks)
	c.floats("RegionMatch", &a.RegionMatch, captions*all*a.Blocks)
	c.floats("RegionNorm", &a.RegionNorm, captions*all*a.Blocks)
	if a.Grad {
		c.floats("DWordMatch", &a.DWordMatch, a.B*words*a.Blocks)
		c.floats("DRegionMatch", &a.DRegionMatch, captions*all*a.Blocks)
		c.floats("DWords", &a.DWords, words*a.E)
		c.floats("DRegions", &a.DRegions, all*a.E)
		c.floats("DWordAttention", &a.DWordAttention, words*all)
		c.floats("DRegionAttention", &a.DRegionAttention, words*all)
	}
}

// PolarWeights computes the Gaussian kernels of the image graph. With the centres of the boxes x1, y1, x2, y2 and d =
// centre_i - centre_j, ρ = ‖d‖, θ = atan2(d_x, d_y), x first,
//
//	e_k = -(ρ - MeanRho_k)² / 2(1e-14 + PrecisionRho_k²)
//	      - min(|θ - MeanTheta_k|, |2π - |θ - MeanTheta_k||)² / 2(1e-14 + PrecisionTheta_k²)
//	w_ijk = exp e_k / Σ_l exp e_l
//
// Weights is w [B, R, R, K], or with Sum Σ_j w_ijk [B, R, K]. Quirk Q5: the sum in the denominator is over the kernels.
// The reference divides 0 by 0 where all exponentials underflow; here w is the limit. The gradient reads DWeights and
// writes the gradients of the four parameters.
type PolarWeights struct {
	Gradient
	B, R, K                      int
	Sum                          bool
	Boxes                        View // [B, R, 4]
	MeanRho, MeanTheta           View // [K]
	PrecisionRho, PrecisionTheta View // [K]
	Weights                      View

	DWeights                       View
	DMeanRho, DMeanTheta           View
	DPrecisionRho, DPrecisionTheta View
}

func (a *PolarWeights) Views(c *Checker) {
	c.positive("B R K", a.B, a.R, a.K)
	weights := a.B * a.R * a.K
	if !a.Sum {
		weights *= a.R
	}
	c.floats("Boxes", &a.Boxes, a.B*a.R*4)
	c.floats("MeanRho", &a.MeanRho, a.K)
	c.floats("MeanTheta", &a.MeanTheta, a.K)
	c.floats("PrecisionRho", &a.PrecisionRho, a.K)
	c.floats("PrecisionTheta", &a.PrecisionTheta, a.K)
	if a.Grad {
		c.floats("DWeights", &a.DWeights, weights)
		c.floats("DMeanRho", &a.DMeanRho, a.K)
		c.floats("DMeanTheta", &a.DMeanTheta, a.K)
		c.floats("DPrecisionRho", &a.DPrecisionRho, a.K)
		c.floats("DPrecisionTheta", &a.DPrecisionTheta, a.K)
	} else {
		c.floats("Weights", &a.Weights, weights)
	}
}

// ScaleBlocks multiplies blocks of rows by factors: Y[a, b, n, :] = X[a, b, n, :]·Factors[a, n] for X [A, B, N, H]. The
// gradient reads DY and writes DX and DFactors, both optional.
type ScaleBlocks struct {
	Gradient
	A, B, N, H int
	X, Y       View // [A, B, N, H]
	Factors    View // [A, N]

	DY, DX, DFactors View
}

func (a *ScaleBlocks) Views(c *Checker) {
	c.positive("A B N H", a.A, a.B, a.N, a.H)
	n := a.A * a.B * a.N * a.H
	c.floats("X", &a.X, n)
	c.floats("Factors", &a.Factors, a.A*a.N)
	if a.Grad {
		c.floats("DY", &a.DY, n)
		c.optional("DX", &a.DX, n)
		c.optional("DFactors", &a.DFactors, a.A*a.N)
	} else {
		c.floats("Y", &a.Y, n)
	}
}

// MixNodes passes information between the nodes of every pair. For the n_c = Lengths_c nodes X [n_c, K·H] of a pair
// (i, c), one row each, with K groups of H columns,
//
//	Y_jk = Σ_l w_jlk X_lk
//
// With PerImage, an image has the same weights w for all captions: Weights is [B, n, n, K], and all lengths are n.
// Otherwise a caption has the same weights for all images: Weights is [n_c, n_c, K] for each caption, one after the
// other. The gradient writes DX and DWeights.
type MixNodes struct {
	Gradient
	B, K, H  int
	PerImage bool
	Lengths  Ints // [C]
	X, Y     View // [B·T, K·H]
	Weights  View

	DY, DX, DWeights View
}

func (a *MixNodes) Views(c *Checker) {
	c.positive("B K H captions", a.B, a.K, a.H, len(a.Lengths.Host))
	rows := c.lengths("Lengths", &a.Lengths, 1, anyLength)
	weights := a.Lengths.squares(rows) * a.K
	if a.PerImage {
		n := a.Lengths.Host[0]
		for i, l := range a.Lengths.Host {
			if l != n {
				c.refuse("weights for each image with %d nodes in pair %d, expected %d as in pair 0", l, i, n)
			}
		}
		weights = a.B * int(n) * int(n) * a.K
	}
	n := a.B * rows * a.K * a.H
	c.floats("X", &a.X, n)
	c.floats("Weights", &a.Weights, weights)
	if a.Grad {
		c.floats("DY", &a.DY, n)
		c.floats("DX", &a.DX, n)
		c.floats("DWeights", &a.DWeights, weights)
	} else {
		c.floats("Y", &a.Y, n)
	}
}

// MeanNodes averages the nodes of every pair: Y[i·C + c, :] is the mean of the rows of X that belong to pair (i, c).
// The gradient reads DY and writes DX.
type MeanNodes struct {
	Gradient
	B, H    int
	Lengths Ints // [C]
	X       View // [B·T, H]
	Y       View // [B·C, H]

	DY, DX View
}

func (a *MeanNodes) Views(c *Checker) {
	c.positive("B H captions", a.B, a.H, len(a.Lengths.Host))
	nodes := a.B * c.lengths("Lengths", &a.Lengths, 1, anyLength) * a.H
	means := a.B * len(a.Lengths.Host) * a.H
	if a.Grad {
		c.floats("DY", &a.DY, means)
		c.floats("DX", &a.DX, nodes)
	} else {
		c.floats("X", &a.X, nodes)
		c.floats("Y", &a.Y, means)
	}
}

// WordGraph computes the weights of the text graph: for the words w of a caption, Weights_jl = softmax_l
// (Lambda·w_j·w_l) over the neighbours l of word j. With Sparse these are j and the words joined to j by one of the
// Edges, otherwise all words of the caption. Weights are [L_c, L_c] for each caption, one after the other.
//
// Edges holds pairs of word positions; the edges of caption c are EdgeStart[c] to EdgeStart[c+1]. The gradient reads
// Weights and DWeights and writes DWords.
type WordGraph struct {
	Gradient
	E         int
	Lambda    float64
	Lengths   Ints // [C]
	Words     View // [T, E]
	Sparse    bool
	Edges     Ints // [edges, 2]
	EdgeStart Ints // [C+1]
	Weights   View

	DWeights, DWords View
}

func (a *WordGraph) Views(c *Checker) {
	captions := len(a.Lengths.Host)
	c.positive("E captions", a.E, captions)
	rows := c.lengths("Lengths", &a.Lengths, 1, anyLength)
	weights := a.Lengths.squares(rows)
	c.floats("Words", &a.Words, rows*a.E)
	c.floats("Weights", &a.Weights, weights)
	if a.Sparse {
		if len(a.EdgeStart.Host) != captions+1 || 2*int(a.EdgeStart.Host[captions]) > len(a.Edges.Host) {
			c.refuse("%d starts of the edges of %d captions and %d ends of edges do not fit", len(a.EdgeStart.Host),
				captions, len(a.Edges.Host))
		}
		a.edges(c)
		c.ints("Edges", &a.Edges.View, 2*int(a.EdgeStart.Host[captions]))
		c.ints("EdgeStart", &a.EdgeStart.View, captions+1)
	}
	if a.Grad {
		c.floats("DWeights", &a.DWeights, weights)
		c.floats("DWords", &a.DWords, rows*a.E)
	}
}

// edges refuses an edge that leaves its caption. Bounded lengths are all taken for the longest; kernels then skip edges
// that leave their caption.
func (a *WordGraph) edges(c *Checker) {
	longest := slices.Max(a.Lengths.Host)
	for i, n := range a.Lengths.Host {
		lo, hi := a.EdgeStart.Host[i], a.EdgeStart.Host[i+1]
		if lo < 0 || hi < lo || 2*int(hi) > len(a.Edges.Host) {
			c.refuse("edges %d to %d of caption %d, expected ascending ones of %d", lo, hi, i, len(a.Edges.Host)/2)
		}
		if a.Lengths.Bounded {
			n = longest
		}
		for _, word := range a.Edges.Host[2*lo : 2*hi] {
			if word < 0 || word >= n {
				c.refuse("an edge of caption %d ends at word %d, expected one of its %d words", i, word, n)
			}
		}
	}
}
