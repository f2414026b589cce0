package device

// SumSquares adds Σ X² to Sum[0] in a fixed order.
type SumSquares struct{ Sum, X View }

func (a *SumSquares) Views(c *Checker) {
	c.floats("Sum", &a.Sum, 1)
	c.whole("X", &a.X)
}

// ClipCoefficient computes Coefficient[0] = min(1, Most/(√SumSquares[0] + 1e-6)) and Norm[0] = √SumSquares[0].
type ClipCoefficient struct {
	Coefficient, Norm, SumSquares View
	Most                          float64
}

func (a *ClipCoefficient) Views(c *Checker) {
	c.floats("Coefficient", &a.Coefficient, 1)
	c.floats("Norm", &a.Norm, 1)
	c.floats("SumSquares", &a.SumSquares, 1)
}

// Factored is a gradient given as a product: G [O, I] = DYᵀ X for DY [N, O] and X [N, I]. For the weight of a large
// linear layer, writing the gradient and reading it twice takes more time than the arithmetic.
type Factored struct {
	N, O, I int
	DY, X   View
}

// views declares the operands of the product.
func (f *Factored) views(c *Checker) {
	c.exactly("DY", &f.DY, f.N*f.O)
	c.exactly("X", &f.X, f.N*f.I)
}

// SumSquaresFactored adds ‖DYᵀ X‖² to Sum[0], computed from the two small Gram matrices: Σ (DY DYᵀ)∘(X Xᵀ).
type SumSquaresFactored struct {
	Sum View
	Factored
}

func (a *SumSquaresFactored) Views(c *Checker) {
	a.Factored.views(c)
	c.floats("Sum", &a.Sum, 1)
}

// Adam updates P [N] in place (torch.optim.Adam): g = Clip[0]·G; m ← β1 m + (1-β1) g; v ← β2 v + (1-β2) g²;
// p ← p·Decay - StepSize·m/(√v·InvSqrt2 + ε), where StepSize = lr/(1-β1ᵗ), InvSqrt2 = 1/√(1-β2ᵗ) and
// Decay = 1 - lr·wd are read from Hyper [3] in device memory, so that a recorded step can be replayed.
// Legacy selects p ← p·Decay - StepSize/InvSqrt2·m/(√v + ε), the form of PyTorch before 1.3.
type Adam struct {
	P, G, M, V   View
	Hyper        View // StepSize, InvSqrt2, Decay
	Clip         View // optional device scalar
	Beta1, Beta2 float64
	Eps          float64
	Legacy       bool
}

func (a *Adam) Views(c *Checker) {
	n := c.whole("P", &a.P)
	c.exactly("G", &a.G, n)
	a.state(c, n)
}

// AdamFactored is Adam for a weight [O, I] with the gradient DYᵀ X, which is computed piece by piece in fast memory and
// not stored; G is absent.
type AdamFactored struct {
	Adam
	Factored
}

func (a *AdamFactored) Views(c *Checker) {
	a.Factored.views(c)
	c.exactly("P", &a.P, a.O*a.I)
	c.optional("G", &a.G, 0)
	a.state(c, a.O*a.I)
}

// state declares the moments of n parameters and the numbers of a step.
func (a *Adam) state(c *Checker, n int) {
	c.exactly("M", &a.M, n)
	c.exactly("V", &a.V, n)
	c.floats("Hyper", &a.Hyper, 3)
	c.optional("Clip", &a.Clip, 1)
}
