package device

// Layouts change the order of axes.
type Layouts interface {
	// SwapAxes copies x [A, B, Inner] to dst [B, A, Inner]: batch-major sequences become time-major and back.
	SwapAxes(dst, x View, a, b, inner int)
}

// SwapAxes declares the views of that kernel.
func (c *Checker) SwapAxes(dst, x *View, a, b, inner int) {
	c.positive("a b inner", a, b, inner)
	c.floats("dst", dst, a*b*inner)
	c.floats("x", x, a*b*inner)
}
