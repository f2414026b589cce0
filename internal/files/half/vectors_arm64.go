package half

const hasVectors = true // every arm64 converts halves

// decodeVectors decodes n halves; n must be a multiple of 8.
//
//go:noescape
func decodeVectors(dst *float32, src *byte, n int)

// encodeVectors encodes n floats, rounding to nearest even; n must be a multiple of 8.
//
//go:noescape
func encodeVectors(dst *byte, src *float32, n int)
