//go:build !linux && !darwin

package gemm

// HasBF16 reports whether the processor multiplies bf16 (FEAT_BF16); this system is not asked.
func HasBF16() bool { return false }
