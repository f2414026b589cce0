// Command asmgen writes the amd64 assembly of package gemm.
//
// The kernels are regular: one accumulator register per (row, vector) and the same step for every k, so a short
// program states them once instead of thousands of lines by hand. Instructions the Go assembler does not know
// (AVX512-BF16, AMX) are encoded here as bytes.
//
// Run from the folder of package gemm:
//
//	go run ./asmgen
package main
