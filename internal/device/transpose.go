package device

// Layouts change the order of axes.
type Layouts interface {
	// SwapAxes copies x [A, B, Inner] to dst [B, A, Inner]: batch-major sequences become time-major and back.
	SwapAxes(dst, x View, a, b, inner int)
}
