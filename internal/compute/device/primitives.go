package device

import "vsetrain/internal/compute/philox"

// The primitives are elementwise functions, reductions and products within segments. A network composes from them what
// has no kernel of its own. They work along one of two axes. Along rows, x [N, D] has one result per row: [N]. Along
// segments, x [T, D] is sets of Counts rows each, one set after the other, and has one row of results per set: [C, D].

// Multiply computes Dst = A∘B; Dst may be A or B.
type Multiply struct{ Dst, A, B View }

func (a *Multiply) Views(c *Checker) { c.binary(&a.Dst, &a.A, &a.B) }

// Function names an elementwise function with the parameter C.
type Function uint8

// The elementwise functions of Map.
const (
	LeakyReLU  Function = iota // x where x > 0, elsewhere C·x, with the derivative C
	Exp                        // e^x; float32 arguments are clamped to [-87.3, 88.3]
	Log                        // ln x
	Sqrt                       // √x, with the derivative 0 at 0
	Reciprocal                 // 1/(x + C)
	Inverse                    // 1/max(x, C), with the derivative 0 where x < C
	functionCount
)

// Valid reports whether f is one of the functions.
func (f Function) Valid() bool { return f < functionCount }

// Map computes Y = F(X); Y may be X. The gradient DX = DY∘F'(X) reads X, Y = F(X) and DY; DX may be DY.
type Map struct {
	Gradient
	F      Function
	C      float64
	X, Y   View
	DY, DX View
}

func (a *Map) Views(c *Checker) {
	if !a.F.Valid() {
		c.refuse("unknown function %d", a.F)
	}
	n := c.whole("X", &a.X)
	c.exactly("Y", &a.Y, n)
	if a.Grad {
		c.exactly("DY", &a.DY, n)
		c.exactly("DX", &a.DX, n)
	}
}

// Reduce computes the sums or maxima of the rows or segments of X. Without Counts, X is [N, D] and Y [N]; otherwise X
// is [Σ Counts, D], Y [C, D] and N is not used. Y = Σ X, or with Max the greatest element, whose position in the row or
// segment goes to Index (the first of equal ones).
//
// The gradient writes X from Y: X = Y at every position, or with Max at position Index, and 0 elsewhere. Rows of X that
// belong to no segment become 0 if the counts are bounds.
type Reduce struct {
	Gradient
	Max    bool
	N, D   int
	Counts Ints // [C], each at least 1
	X, Y   View
	Index  View // int32, as many as Y; with Max
}

func (a *Reduce) Views(c *Checker) {
	c.positive("D", a.D)
	rows, results := a.N, a.N
	if a.Segmented() {
		rows, results = c.lengths("Counts", &a.Counts, 1, anyLength), len(a.Counts.Host)*a.D
	}
	c.floats("X", &a.X, rows*a.D)
	c.floats("Y", &a.Y, results)
	if a.Max {
		c.ints("Index", &a.Index, results)
	} else {
		a.Index = View{}
	}
}

// Segmented reports whether the reduction is along segments.
func (a *Reduce) Segmented() bool { return a.Counts.Present() }

// SegmentForm is one of the products of SegmentProducts.
type SegmentForm uint8

// The products within a segment s of n rows.
const (
	SegmentGram   SegmentForm = iota // G_s = A_s B_sᵀ    A, B [T, D], G [T, Longest]
	SegmentApply                     // B_s = G_s A_s     G [T, Longest], A, B [T, D]
	SegmentApplyT                    // B_s = G_sᵀ A_s
)

// SegmentProducts multiplies matrices within every segment. The rows of G that belong to segment s hold n = Counts_s
// values, in a row of Longest; values after them are neither read nor written. The products are float32 in every
// precision but fp64.
type SegmentProducts struct {
	Form       SegmentForm
	D, Longest int
	Counts     Ints // [C], each between 1 and Longest
	A, B, G    View
}

func (a *SegmentProducts) Views(c *Checker) {
	c.positive("D Longest", a.D, a.Longest)
	if a.Form > SegmentApplyT {
		c.refuse("unknown form %d", a.Form)
	}
	rows := c.lengths("Counts", &a.Counts, 1, a.Longest)
	c.floats("A", &a.A, rows*a.D)
	c.floats("B", &a.B, rows*a.D)
	c.floats("G", &a.G, rows*a.Longest)
}

// SwapAxes copies X [A, B, Inner] to Dst [B, A, Inner]: batch-major sequences become time-major and back.
type SwapAxes struct {
	Dst, X      View
	A, B, Inner int
}

func (a *SwapAxes) Views(c *Checker) {
	n := a.A * a.B * a.Inner
	c.positive("A B Inner", a.A, a.B, a.Inner)
	c.floats("Dst", &a.Dst, n)
	c.floats("X", &a.X, n)
}

// DropoutParams says which elements dropout drops. Column k of row r has the place Rows[r]·2³² + k. The element at
// place i is kept, and divided by 1 - Rate, if word i mod 4 of philox block (Step, i div 4) is at least Rate·2³²,
// rounded down. A row with a negative number becomes zero. So a mask depends neither on the address of a row nor on its
// neighbours.
//
// Step, the low and the high half of the counter of training steps, is read from device memory, so that a recorded step
// can be replayed. Rate 0 keeps everything; kernels with a DropoutParams field then read neither Step nor Rows.
type DropoutParams struct {
	Rate float64 // in [0, 1)
	Key  philox.Key
	Step Ints // [2]
	Rows View // int32 [rows], numbers of rows (graph.Graph.RowIndices)
}

// views declares the views for n rows, by their names in a kernel.
func (p *DropoutParams) views(c *Checker, step, rows string, n int) {
	if !(p.Rate >= 0 && p.Rate < 1) {
		c.refuse("dropout rate %v, expected one in [0, 1)", p.Rate)
	}
	if p.Rate > 0 {
		c.ints(step, &p.Step.View, 2)
		c.ints(rows, &p.Rows, n)
	}
}

// Part returns the draws of rows [from, to).
func (p DropoutParams) Part(from, to int) DropoutParams {
	if p.Rate > 0 {
		p.Rows = p.Rows.Slice(from, to)
	}
	return p
}

// Dropout computes y = x·m/(1-Rate), where m is 0 with probability Rate and 1 otherwise (DropoutParams). The gradient
// is the same call on dy. Y may be X.
type Dropout struct {
	DropoutParams
	Width int
	X, Y  View // [rows, Width]
}

func (a *Dropout) Views(c *Checker) {
	c.positive("Width", a.Width)
	n := c.whole("Y", &a.Y)
	c.exactly("X", &a.X, n)
	if n%a.Width != 0 || !(a.Rate > 0) {
		c.refuse("%d values at rate %v, expected rows of %d and a positive rate", n, a.Rate, a.Width)
	}
	a.DropoutParams.views(c, "Step", "Rows", n/a.Width)
}
