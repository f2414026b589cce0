//go:build !amd64 && !arm64

package tile64

// Available lists the kernels this processor can run.
func Available() []Kernel { return []Kernel{{"generic", generic[float64], generic[float32]}} }
