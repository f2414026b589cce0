package tile64

//go:noescape
func doubleNEON(n int, a *float64, stride int, b, c *float64)

//go:noescape
func singleNEON(n int, a *float64, stride int, b *float32, c *float64)

// Available lists the kernels this processor can run, the fastest first. Every arm64 has NEON.
func Available() []Kernel {
	return []Kernel{{"neon", parts(doubleNEON), parts(singleNEON)}, {"generic", generic[float64], generic[float32]}}
}
