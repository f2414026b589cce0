package device

// Gemm describes C[M,N] = Alpha·op(A)[M,K]·op(B)[K,N] + Beta·C (+ Bias[N] added to every row).
//
// TransA: A is stored [K,M]. TransB: B is stored [N,K]. A leading dimension of 0 means dense. Batch > 1 repeats the
// product with the given strides in elements between consecutive items (a stride of 0 shares the operand). Beta = 0
// never reads C. In precision bf16 the operands are rounded to bfloat16 and the products are accumulated in float32;
// Exact products are computed in float32. Even means that the values of a row of op(A), and of a column of op(B), have
// a similar magnitude, like the values of a unit vector. The error of a float32 product may then be relative to the
// largest value of its row and column.
//
// Active (optional, for one product with a dense C) receives F of the elements of C, bias included. With Operand, only
// products that are not Exact read Active, so a device may store it rounded for them.
type Gemm struct {
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
	Operand                   bool
}

// Views declares each matrix from its first element to its last. It replaces a leading dimension of 0 by its value.
func (a *Gemm) Views(c *Checker) {
	if a.M < 0 || a.N < 0 || a.K < 0 || a.Batch < 0 || a.StrideA < 0 || a.StrideB < 0 || a.StrideC < 0 {
		c.refuse("negative size in M=%d N=%d K=%d Batch=%d strides %d %d %d",
			a.M, a.N, a.K, a.Batch, a.StrideA, a.StrideB, a.StrideC)
	}
	if a.M == 0 || a.N == 0 {
		return
	}
	if a.Overlap() {
		c.refuse("products of %d×%d overlap with StrideC=%d", a.M, a.N, a.StrideC)
	}
	count := max(1, a.Batch)
	c.matrix("A", &a.A, &a.LDA, a.TransA, a.M, a.K, count, a.StrideA)
	c.matrix("B", &a.B, &a.LDB, a.TransB, a.K, a.N, count, a.StrideB)
	c.matrix("C", &a.C, &a.LDC, false, a.M, a.N, count, a.StrideC)
	c.optional("Bias", &a.Bias, a.N)
	if a.Active.Present() && (count > 1 || a.LDC != a.N) {
		c.refuse("Active of %d products with LDC=%d, expected one with LDC=%d", count, a.LDC, a.N)
	}
	c.function(a.F)
	c.optional("Active", &a.Active, a.M*a.N)
}

// matrix declares count operands stored [rows, cols], or [cols, rows] if trans is set, with rows ld apart.
func (c *Checker) matrix(name string, v *View, ld *int, trans bool, rows, cols, count, stride int) {
	if trans {
		rows, cols = cols, rows
	}
	if *ld == 0 {
		*ld = cols
	}
	if *ld < cols {
		c.refuse("LD%s is %d, expected at least %d", name, *ld, cols)
	}
	if rows == 0 || cols == 0 { // nothing is read
		c.optional(name, v, 0)
		return
	}
	c.floats(name, v, (count-1)*stride+(rows-1)**ld+cols)
}

// Overlap reports whether the products of a batch would write the same elements of C. They may follow each other, or be
// side by side as groups of columns.
func (a *Gemm) Overlap() bool {
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

// Combine computes Dst = Alpha·A + Beta·B; B may be absent, and Dst may be A or B.
type Combine struct {
	Dst, A, B   View
	Alpha, Beta float64
}

func (a *Combine) Views(c *Checker) {
	n := c.whole("Dst", &a.Dst)
	c.exactly("A", &a.A, n)
	if a.B.Present() {
		c.exactly("B", &a.B, n)
	}
}

// Add computes Dst = A + B; Dst may be A or B.
type Add struct{ Dst, A, B View }

func (a *Add) Views(c *Checker) { c.binary(&a.Dst, &a.A, &a.B) }

// binary declares the views of an elementwise kernel of two arguments.
func (c *Checker) binary(dst, a, b *View) {
	n := c.whole("Dst", dst)
	c.exactly("A", a, n)
	c.exactly("B", b, n)
}

// Scale computes Dst = X·Factor[0], Factor a device scalar; Dst may be X.
type Scale struct{ Dst, X, Factor View }

func (a *Scale) Views(c *Checker) {
	c.exactly("X", &a.X, c.whole("Dst", &a.Dst))
	c.floats("Factor", &a.Factor, 1)
}

// Activate computes Y = F(X); Y may be X. The gradient DX = DY·F'(X) reads the output Y for Tanh and Sigmoid, and the
// input X for other functions; the other of the two may be absent. DX may be DY.
type Activate struct {
	Gradient
	F      Activation
	Y, X   View
	DX, DY View
}

func (a *Activate) Views(c *Checker) {
	c.function(a.F)
	if !a.Grad {
		c.exactly("X", &a.X, c.whole("Y", &a.Y))
		return
	}
	n := c.whole("DX", &a.DX)
	c.exactly("DY", &a.DY, n)
	if a.F == Tanh || a.F == Sigmoid {
		c.exactly("Y", &a.Y, n)
	} else {
		c.exactly("X", &a.X, n)
	}
}

// ColumnSum computes Dst[n] = Σ_m X[m, n] for X [Rows, Columns]: the gradient of a bias.
type ColumnSum struct {
	Dst, X        View
	Rows, Columns int
}

func (a *ColumnSum) Views(c *Checker) {
	c.positive("Columns", a.Columns)
	c.floats("Dst", &a.Dst, a.Columns)
	c.floats("X", &a.X, a.Rows*a.Columns)
}

// BiasActivate is the backward pass of y = f(x), where x has a bias in every row: DX = DY∘f'(X), DBias [N] = Σ_m DX[m,
// n] (optional), and Y = f(X) (optional), recomputed for the gradient of the ops that read it. F is ReLU, Abs or GELU,
// whose slope is a function of X. DX may be DY, Y may be X. With Operand, only products read DX and Y (Gemm).
type BiasActivate struct {
	F      Activation
	M, N   int
	X, Y   View // [M, N]
	DY, DX View // [M, N]
	DBias  View // [N]

	Operand bool
}

func (a *BiasActivate) Views(c *Checker) {
	c.positive("N", a.N)
	c.function(a.F)
	if a.F == Tanh || a.F == Sigmoid {
		c.refuse("function %d, expected one whose slope is known from the input", a.F)
	}
	n := a.M * a.N
	c.floats("X", &a.X, n)
	c.optional("Y", &a.Y, n)
	c.floats("DY", &a.DY, n)
	c.floats("DX", &a.DX, n)
	c.optional("DBias", &a.DBias, a.N)
}

// L2Norm computes y = x/(‖x‖+eps) over the middle axis of X [Outer, N, Inner]; Norm [Outer, Inner] keeps ‖x‖. With
// eps = 0 a vector of norm exactly 0 gives 0 (quirk Q12). The gradient reads X, Norm and DY and writes DX. At norm 0 it
// is dy/eps, and 0 for eps = 0.
type L2Norm struct {
	Gradient
	Outer, N, Inner int // Inner = 1 normalises rows
	Eps             float64
	X, Y, Norm      View
	DY, DX          View
}

func (a *L2Norm) Views(c *Checker) {
	c.positive("Outer N Inner", a.Outer, a.N, a.Inner)
	n := a.Outer * a.N * a.Inner
	c.floats("X", &a.X, n)
	c.floats("Norm", &a.Norm, a.Outer*a.Inner)
	if a.Grad {
		c.floats("DY", &a.DY, n)
		c.floats("DX", &a.DX, n)
	} else {
		c.floats("Y", &a.Y, n)
	}
}

// GatherWords reads the word vectors of a batch in packed order (see Packing): Out[p] = Table[Words[b, t]], for Words
// [B, L] int32, Table [V, D] and Out [T, D]. The gradient reads Out as the gradient of the packed rows and writes Table
// as the gradient of the table. It is deterministic.
type GatherWords struct {
	Gradient
	Words   Ints
	Lengths Ints // [B], descending
	L, V, D int
	Table   View
	Out     View // at least T·D elements
}

func (a *GatherWords) Views(c *Checker) {
	c.positive("L V D", a.L, a.V, a.D)
	rows := c.packed(&a.Lengths, a.L)
	c.ints("Words", &a.Words.View, len(a.Lengths.Host)*a.L)
	if a.Grad {
		c.floats("Table", &a.Table, a.V*a.D)
	} else {
		c.part("Table", &a.Table, Float, a.V*a.D, Required, rows*a.D)
	}
	c.floats("Out", &a.Out, rows*a.D)
}

// OrderScores computes S_ij = -‖max(0, c_j - i_i)‖₂ for Images [B, D] and Captions [C, D]: Scores [B, C]. The gradient
// reads Scores and DScores and writes DImages and DCaptions (either may be absent). A score of 0 passes no gradient.
type OrderScores struct {
	Gradient
	B, C, D                     int
	Images, Captions, Scores    View
	DScores, DImages, DCaptions View
}

func (a *OrderScores) Views(c *Checker) {
	c.positive("B C D", a.B, a.C, a.D)
	c.floats("Images", &a.Images, a.B*a.D)
	c.floats("Captions", &a.Captions, a.C*a.D)
	c.floats("Scores", &a.Scores, a.B*a.C)
	if a.Grad {
		c.floats("DScores", &a.DScores, a.B*a.C)
		c.optional("DImages", &a.DImages, a.B*a.D)
		c.optional("DCaptions", &a.DCaptions, a.C*a.D)
	}
}
