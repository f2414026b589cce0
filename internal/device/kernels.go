package device

// Products are the matrix products, the bulk of all work.
type Products interface {
	Gemm(GemmArgs)
}

// GemmArgs describes C[M,N] = Alpha·op(A)[M,K]·op(B)[K,N] + Beta·C (+ Bias[N] added to every row).
//
// TransA: A is stored [K,M]. TransB: B is stored [N,K]. A leading dimension of 0 means densely packed. Batch > 1
// repeats the product with the given strides in elements between consecutive items (a stride of 0 shares the
// operand). Beta = 0 never reads C. In precision bf16 the operands are rounded to bfloat16 and the products are
// accumulated in float32, unless Exact asks for float32 products. Even says that the values of a row of op(A), and those of a column of op(B), are
// of one size, as those of vectors of length 1 are: float32 products may then be exact to the largest of them and not to each.
//
// Active (optional, one product with C densely packed) receives F of the elements of C, bias included, which C keeps.
type GemmArgs struct {
	TransA, TransB            bool
	M, N, K                   int
	Alpha, Beta               float64
	A, B, C                   View
	LDA, LDB, LDC             int
	Bias                      View // optional
	Batch                     int  // 0 and 1 mean one product
	StrideA, StrideB, StrideC int
	Exact, Even               bool
	F                         Activation
	Active                    View // optional [M, N]
}

// Overlap reports whether the products of a batch would write the same elements of C. They lie one after the other, or side by side as
// groups of columns.
func (a *GemmArgs) Overlap() bool {
	ld := max(a.LDC, a.N)
	after, beside := a.StrideC >= (a.M-1)*ld+a.N, a.StrideC >= a.N && ld >= (a.Batch-1)*a.StrideC+a.N
	return a.Batch > 1 && !after && !beside
}

// Activation names an elementwise function.
type Activation uint8

// The elementwise functions of the networks.
const (
	ReLU    Activation = iota // max(0, x); derivative 0 at 0
	Tanh                      // tanh x
	Sigmoid                   // 1 / (1 + e^-x)
	Abs                       // |x|; derivative 0 at 0
	GELU                      // x·Φ(x) = x/2·(1 + erf(x/√2))
)

// Rows are elementwise and row kernels.
type Rows interface {
	// Add computes dst = a + b; dst may be a or b.
	Add(dst, a, b View)
	// Scale computes dst = x·factor[0], factor a device scalar; dst may be x.
	Scale(dst, x, factor View)
	// Activate computes y = f(x).
	Activate(f Activation, y, x View)
	// ActivateGrad computes dx = dy·f'(x) from the output y of Tanh and Sigmoid, of the others from the input x; the other of the
	// two may be absent. dx may be dy.
	ActivateGrad(f Activation, dx, x, y, dy View)
	// BiasActivateGrad goes back through y = f(x), x = … + bias in every row.
	BiasActivateGrad(BiasActivateArgs)
	// ColumnSum computes dst[N] = Σ_m x[m,n]: the gradient of a bias.
	ColumnSum(dst, x View, rows, cols int)
	// L2Norm computes y = x/(‖x‖+eps) over the middle axis of x [Outer, N, Inner]; norm [Outer, Inner] keeps ‖x‖.
	// With eps = 0 a vector of norm exactly 0 yields 0 (quirk Q12).
	L2Norm(L2NormArgs)
	// L2NormGrad computes dx from x, norm and dy. At norm 0 that is dy/eps, and 0 for eps = 0.
	L2NormGrad(L2NormArgs)
	// GatherWords reads the word vectors of a batch in packed order (see Packing): out[p] = table[words[b,t]].
	GatherWords(GatherArgs)
	// ScatterWords adds the packed rows of dout to dtable, which it first sets to zero. Deterministic.
	ScatterWords(GatherArgs)
	// OrderScores computes S_ij = -‖max(0, c_j - i_i)‖₂ for images [B, D] and captions [C, D] (order embeddings).
	OrderScores(OrderArgs)
	// OrderScoresGrad computes the gradients of both embeddings.
	OrderScoresGrad(OrderArgs)
}

// BiasActivateArgs: DX = DY∘f'(X), DBias [N] = Σ_m DX[m, n] (optional), and Y = f(X) (optional), made anew for the gradient of what reads it. F
// is ReLU, Abs or GELU, whose slope is one of X. DX may be DY, Y may be X.
type BiasActivateArgs struct {
	F      Activation
	M, N   int
	X, Y   View // [M, N]
	DY, DX View // [M, N]
	DBias  View // [N]
}

// L2NormArgs are the arguments of L2Norm (X, Y, Norm) and L2NormGrad (X, Norm, DY → DX).
type L2NormArgs struct {
	Outer, N, Inner int // Inner = 1 normalises rows
	Eps             float64
	X, Y, Norm      View
	DY, DX          View
}

// GatherArgs: Words [B, L] int32 row-major with L columns, Table [V, D], Out [T, D] packed.
// ScatterWords reads Out as the gradient of the packed rows and writes Table as the gradient of the table.
type GatherArgs struct {
	Words   Ints
	Lengths Ints // [B], descending
	L, V, D int
	Table   View
	Out     View // at least T·D elements
}

// OrderArgs: Images [B, D], Captions [C, D], Scores [B, C]; the gradient kernel reads Scores and DScores and writes
// DImages and DCaptions (either may be absent). A score of 0 passes no gradient.
type OrderArgs struct {
	B, C, D                     int
	Images, Captions, Scores    View
	DScores, DImages, DCaptions View
}

// Recurrent are whole-sequence recurrences, so that each device can keep the weights where they are fastest.
type Recurrent interface {
	GRU(GRUArgs)
	GRUGrad(GRUArgs)
	// BiGRU runs both directions at once.
	BiGRU(BiGRUArgs)
	BiGRUGrad(BiGRUArgs)
}

// GRUArgs describes one direction of a GRU layer over a packed batch (torch.nn.GRU):
//
//	r = σ(W_ir x + b_ir + W_hr h + b_hr)    z = σ(W_iz x + b_iz + W_hz h + b_hz)
//	n = tanh(W_in x + b_in + r∘(W_hn h + b_hn))    h' = (1-z)∘n + z∘h    h₀ = 0
//
// Rows are packed time-major (see Packing); T rows are read and written, memory beyond them is left alone. Reverse
// runs from the last word of each caption to its first. GRU writes Y [T, H], Final [B, H] (the state after the last
// processed word), and keeps Gates [T, 4H] (r, z, n, W_hn h + b_hn) and Prev [T, H] (the state before each
// word) for GRUGrad. GRUGrad reads DY [T, H] and DFinal [B, H] (either may be absent) and writes DX [T, I]
// (optional), DWIH, DWHH, DBIH, DBHH; it may overwrite Gates.
type GRUArgs struct {
	I, H           int
	Lengths        Ints // [B], descending, each at least 1
	Reverse        bool
	X              View // [T, I]
	WIH, WHH       View // [3H, I], [3H, H], gates stacked r, z, n
	BIH, BHH       View // [3H]
	Y, Final       View
	Gates, Prev    View
	DY, DFinal, DX View
	DWIH, DWHH     View
	DBIH, DBHH     View
}

// BiGRUArgs describes both directions of a GRU layer over a packed batch, each as in GRUArgs, and the mean of their states:
//
//	Y = (→h + ←h)/2
//
// Directions[0] runs forward, Directions[1] backward; each keeps its Gates and Prev. BiGRUGrad reads DY [T, H] and writes DX (optional), the sum of
// both directions, and the gradients of the weights of both; it may overwrite Gates. Work is scratch memory: [T, H] for BiGRU, [T, H] and with DX
// [T, H+I] for BiGRUGrad; what it holds afterwards is arbitrary.
type BiGRUArgs struct {
	I, H       int
	Lengths    Ints // [B], descending, each at least 1
	X          View // [T, I]
	Y          View // [T, H]
	DY, DX     View
	Work       View
	Directions [2]GRUDirection
}

// GRUDirection are the weights of one direction, what it keeps, and the gradients, as in GRUArgs.
type GRUDirection struct {
	WIH, WHH, BIH, BHH     View
	Gates, Prev            View
	DWIH, DWHH, DBIH, DBHH View
}

// Losses are the retrieval losses over a score matrix S [N, N] with the matching pairs on the diagonal.
type Losses interface {
	Hinge(HingeArgs)
	// SemanticMargins turns the Gram matrix of the semantic vectors into the margins of LSEH.
	SemanticMargins(MarginArgs)
	UniversalWeighting(UniversalArgs)
}

// LossOut are the results every loss kernel writes.
type LossOut struct {
	Loss View // [3]: total, caption-retrieval (row) part, image-retrieval (column) part
	Grad View // [N, N]: dLoss/dS
	// Bookkeeping for analysis (optional): for each image the column, for each caption the row of its hardest
	// negative (lowest index on ties, 0 when every cost is 0), and the hinge value there. For LUWM the negative is
	// v, the hinge value the negative polynomial, and both are 0 for a skipped anchor.
	HardCaption, HardImage View // int32 [N]
	CostCaption, CostImage View // float [N]
}

// HingeArgs: cs_ij = [M_ij + S_ij - S_ii]+ and ci_ij = [M_ij + S_ij - S_jj]+ with zero diagonals; Max takes the maximum
// of every row of cs and column of ci, otherwise everything is summed (the references: ContrastiveLoss). The gradient
// is 1 where the argument is ≥ 0.
type HingeArgs struct {
	N       int
	Scores  View
	Margin  float64 // constant margin, used when Margins is absent
	Margins View    // optional [N, N]
	Max     bool
	LossOut
}

// MarginArgs: Sim_ij = Gram_ij / d_i with d_i = max_j Gram_ij (1 if that is 0), or the cosine Gram_ij / √(Gram_ii
// Gram_jj) (0 for a zero vector); M_ij = Alpha + Lambda·Sim_ij, 0 on the diagonal and, with ZeroSameImage, wherever
// Images[i] = Captions[j] (quirks Q18 to Q20). Images and Captions hold the image identity of every pair and are
// normally the same; the released rule for one caption per image compares image i with caption j // 5 instead.
type MarginArgs struct {
	N             int
	Gram          View // [N, N]
	Images        View // int32 [N]
	Captions      View // int32 [N]
	Alpha, Lambda float64
	Cosine        bool
	ZeroSameImage bool
	Margins       View // [N, N]
}

// UniversalArgs is the self-similarity polynomial loss LUWM (wayne980/PolyLoss): for each anchor with positive p < 1 -
// 1e-5 and hardest informative negative v (v + Margin > p), [P0 + P1·p + P2·p²]+ + [N0 + N1·v + N2·v²]+; the sum over
// both directions is divided by N.
type UniversalArgs struct {
	N        int
	Scores   View
	Margin   float64
	Positive [3]float64
	Negative [3]float64
	LossOut
}

// Optimiser are the kernels of a training step over flat parameter memory.
type Optimiser interface {
	// SumSquares adds Σ x² to acc[0] in a fixed order.
	SumSquares(acc, x View)
	// ClipCoefficient computes coef[0] = min(1, maxNorm/(√sumSquares[0] + 1e-6)) and norm[0] = √sumSquares[0].
	ClipCoefficient(coef, norm, sumSquares View, maxNorm float64)
	Adam(AdamArgs)
	// SumSquaresFactored adds ‖DYᵀ X‖² to acc[0], computed from the two small Gram matrices: Σ (DY DYᵀ)∘(X Xᵀ).
	SumSquaresFactored(acc View, f Factored)
	// AdamFactored is Adam for a weight [O, I] with the gradient DYᵀ X, which is made piece by piece in fast memory and
	// never stored; AdamArgs.G is absent.
	AdamFactored(a AdamArgs, f Factored)
}

// Factored is a gradient that is known as a product: G [O, I] = DYᵀ X for DY [N, O] and X [N, I]. For the weight of a large
// linear layer that saves writing the gradient and reading it twice, which costs more time than the arithmetic.
type Factored struct {
	N, O, I int
	DY, X   View
}

// AdamArgs updates P [N] in place (torch.optim.Adam): g = Clip[0]·G; m ← β1 m + (1-β1) g; v ← β2 v + (1-β2) g²;
// p ← p·Decay - StepSize·m/(√v·InvSqrt2 + ε), where StepSize = lr/(1-β1ᵗ), InvSqrt2 = 1/√(1-β2ᵗ) and
// Decay = 1 - lr·wd are read from Hyper [3] in device memory, so that a recorded step can be replayed.
// Legacy selects p ← p·Decay - StepSize/InvSqrt2·m/(√v + ε), the form of PyTorch before 1.3.
type AdamArgs struct {
	P, G, M, V   View
	Hyper        View // StepSize, InvSqrt2, Decay
	Clip         View // optional device scalar
	Beta1, Beta2 float64
	Eps          float64
	Legacy       bool
}
