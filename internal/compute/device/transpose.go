package device

// SwapAxes copies X [A, B, Inner] to Dst [B, A, Inner]: batch-major sequences become time-major and back.
type SwapAxes struct {
	Dst, X      View
	A, B, Inner int
}

// Views implements Kernel.
func (a *SwapAxes) Views(c *Checker) {
	n := a.A * a.B * a.Inner
	c.positive("A B Inner", a.A, a.B, a.Inner)
	c.floats("Dst", &a.Dst, n)
	c.floats("X", &a.X, n)
}
