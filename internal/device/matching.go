package device

// Matching are the kernels of graph-structured matching (Liu, Mao, Zhang, Xie, Wang, Zhang: "Graph Structured Network for Image-Text
// Matching", CVPR 2020; CrossmodalGroup/GSMN, model.py and layers.py). B images of R regions meet C captions of T = Σ Lengths words, the
// words of the captions one caption after the other without padding.
//
// A node is a region or a word in the presence of the other side. The nodes of the words are T rows for each image, image after
// image. Those of the regions are R rows for each pair, pair (i, c) at (i·C + c)·R: the same layout as of captions with R words each.
// Gradients may pass over pairs without gradient, as in Pairs.
type Matching interface {
	// BlockMatch compares every node with its context, block by block.
	BlockMatch(BlockMatchArgs)
	// BlockMatchGrad computes its gradients.
	BlockMatchGrad(BlockMatchArgs)
	// PolarWeights computes the Gaussian kernels of the image graph.
	PolarWeights(PolarArgs)
	// PolarWeightsGrad computes the gradients of their parameters.
	PolarWeightsGrad(PolarArgs)
	// ScaleBlocks multiplies blocks of rows by factors.
	ScaleBlocks(ScaleArgs)
	// ScaleBlocksGrad computes DX and DFactors.
	ScaleBlocksGrad(ScaleArgs)
	// MixNodes passes information between the nodes of every pair.
	MixNodes(MixArgs)
	// MixNodesGrad computes DX and DWeights.
	MixNodesGrad(MixArgs)
	// MeanNodes averages the nodes of every pair.
	MeanNodes(NodeMeansArgs)
	// MeanNodesGrad computes DX.
	MeanNodesGrad(NodeMeansArgs)
	// WordGraph computes the weights of the text graph.
	WordGraph(WordGraphArgs)
	// WordGraphGrad computes DWords.
	WordGraphGrad(WordGraphArgs)
}

// BlockMatchArgs: with the attention weights of words over regions, β, and of regions over words, α, both one row per word, and
// x^b the block b of E/Blocks values of a vector,
//
//	WordMatch_itb   = cos(w_t^b, Σ_k β_t,ik v_ik^b)
//	RegionMatch_ikb = cos(v_ik^b, Σ_t α_t,ik w_t^b)    t over the words of a caption
//
// with cos(x, y) = x·y / max(‖x‖‖y‖, 1e-8). The contexts need not be formed: with the products A_t,ik^b = w_t^b·v_ik^b and the Gram matrices
// G of the blocks of a caption or an image, the numerators are Σ β A and Σ α A, and the squared norms of the contexts β G βᵀ and α G αᵀ.
// WordNorm and RegionNorm keep these norms.
//
// The gradient reads what the forward kernel wrote, DWordMatch and DRegionMatch, and writes DWords, DRegions, DWordAttention and
// DRegionAttention. It lets 1e-8 pass no gradient.
type BlockMatchArgs struct {
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

// PolarArgs: with the centres of the boxes x1, y1, x2, y2 and d = centre_i - centre_j, ρ = ‖d‖, θ = atan2(d_x, d_y), x first,
//
//	e_k = -(ρ - MeanRho_k)² / 2(1e-14 + PrecisionRho_k²) - min(|θ - MeanTheta_k|, |2π - |θ - MeanTheta_k||)² / 2(1e-14 + PrecisionTheta_k²)
//	w_ijk = exp e_k / Σ_l exp e_l
//
// Weights is w [B, R, R, K], or with Sum Σ_j w_ijk [B, R, K]. Quirk Q5: the sum in the denominator is over the kernels. The reference
// divides 0 by 0 where all exponentials underflow; here w is the limit.
//
// The gradient reads DWeights and writes the gradients of the four parameters.
type PolarArgs struct {
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

// ScaleArgs: Y[a, b, n, :] = X[a, b, n, :]·Factors[a, n] for X [A, B, N, H]. DX and DFactors are optional.
type ScaleArgs struct {
	A, B, N, H int
	X, Y       View // [A, B, N, H]
	Factors    View // [A, N]

	DY, DX, DFactors View
}

// MixArgs: for the n_c = Lengths_c nodes X [n_c, K·H] of a pair (i, c), one row each, and their K groups of H columns,
//
//	Y_jk = Σ_l w_jlk X_lk
//
// w is that of the image with PerImage, Weights [B, n, n, K] and all lengths n; otherwise that of the caption, one behind the other:
// [n_c, n_c, K]. The gradient writes DX and DWeights.
type MixArgs struct {
	B, K, H  int
	PerImage bool
	Lengths  Ints // [C]
	X, Y     View // [B·T, K·H]
	Weights  View

	DY, DX, DWeights View
}

// NodeMeansArgs: Y[i·C + c, :] is the mean of the rows of X that belong to pair (i, c). The gradient reads DY and writes DX.
type NodeMeansArgs struct {
	B, H    int
	Lengths Ints // [C]
	X       View // [B·T, H]
	Y       View // [B·C, H]

	DY, DX View
}

// WordGraphArgs: for the words w of a caption, Weights_jl = softmax_l (Lambda·w_j·w_l) over its neighbours l, which are the words joined to j
// by one of its Edges, and j itself; without Edges all its words. Weights are [L_c, L_c] for each caption, one behind the other.
//
// Edges holds pairs of places in a caption, those of caption c from EdgeStart[c] to EdgeStart[c+1]. The gradient reads Weights and
// DWeights and writes DWords.
type WordGraphArgs struct {
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
