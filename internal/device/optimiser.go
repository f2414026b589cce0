package device

// Optimiser are the kernels of a training step over flat parameter memory.
type Optimiser interface {
	// SumSquares adds Σ x² to acc[0] in a fixed order.
	SumSquares(acc, x View)
	// ClipCoefficient computes coef[0] = min(1, maxNorm/(√sumSquares[0] + 1e-6)) and norm[0] = √sumSquares[0].
	ClipCoefficient(coef, norm, sumSquares View, maxNorm float64)
	Adam(AdamArgs)
}

// Factoring are the optimiser's kernels for gradients that are known as products.
type Factoring interface {
	// SumSquaresFactored adds ‖DYᵀ X‖² to acc[0], computed from the two small Gram matrices: Σ (DY DYᵀ)∘(X Xᵀ).
	SumSquaresFactored(acc View, f Factored)
	// AdamFactored is Adam for a weight [O, I] with the gradient DYᵀ X, which is made piece by piece in fast memory and
	// never stored; AdamArgs.G is absent.
	AdamFactored(a AdamArgs, f Factored)
}

// SumSquares declares the views of that kernel.
func (c *Checker) SumSquares(acc, x *View) {
	c.floats("acc", acc, 1)
	c.whole("x", x)
}

// ClipCoefficient declares the views of that kernel.
func (c *Checker) ClipCoefficient(coef, norm, sumSquares *View) {
	c.floats("coef", coef, 1)
	c.floats("norm", norm, 1)
	c.floats("sumSquares", sumSquares, 1)
}

// Factored is a gradient that is known as a product: G [O, I] = DYᵀ X for DY [N, O] and X [N, I]. For the weight of a
// large linear layer that saves writing the gradient and reading it twice, which costs more time than the arithmetic.
type Factored struct {
	N, O, I int
	DY, X   View
}

// views declares the operands of the product.
func (f *Factored) views(c *Checker) {
	c.exactly("DY", &f.DY, f.N*f.O)
	c.exactly("X", &f.X, f.N*f.I)
}

// SumSquaresFactored declares the views of that kernel.
func (c *Checker) SumSquaresFactored(acc *View, f *Factored) {
	f.views(c)
	c.floats("acc", acc, 1)
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

// Views declares the views of Adam.
func (a *AdamArgs) Views(c *Checker) {
	n := c.whole("P", &a.P)
	c.exactly("G", &a.G, n)
	a.state(c, n)
}

// AdamFactored declares the views of that kernel.
func (c *Checker) AdamFactored(a *AdamArgs, f *Factored) {
	f.views(c)
	c.exactly("P", &a.P, f.O*f.I)
	a.state(c, f.O*f.I)
}

// state declares the moments of n parameters and the numbers of a step.
func (a *AdamArgs) state(c *Checker, n int) {
	c.exactly("M", &a.M, n)
	c.exactly("V", &a.V, n)
	c.floats("Hyper", &a.Hyper, 3)
	c.optional("Clip", &a.Clip, 1)
}
