//go:build !amd64 && !arm64

package probe

// Features returns nothing: on other processors the kernels are plain Go.
func Features() []Feature { return nil }
