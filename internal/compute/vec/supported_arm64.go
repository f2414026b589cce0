package vec

// Supported returns the float32 tables this processor can run, fastest first. Every arm64 has NEON.
func Supported() []*Ops[float32] { return []*Ops[float32]{neon(), go32()} }
