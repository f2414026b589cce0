//go:build !amd64 && !arm64

package vec

// Supported returns the float32 tables this processor can run, fastest first.
func Supported() []*Ops[float32] { return []*Ops[float32]{go32()} }
