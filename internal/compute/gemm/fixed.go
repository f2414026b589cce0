package gemm

// Fixed-point products (doc.go).

const fixedTerms = 256 // most terms of a block, which share a scale

// fixes reports whether products of k terms are done in fixed point where that is asked for and the CPU can. The scales
// and the way from integers to C must not cost what the digits gain.
func fixes(k int) bool { return k >= 192 && roundUp(k, 64)*8 <= 9*k }

// fixedWords is how many words a row of k values occupies: 64 values in three times 16 words, and a scale.
func fixedWords(k int) int { return 3*roundUp(k, 64)/4 + 1 }
