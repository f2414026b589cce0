// Command asmgen writes the assembly of packages gemm and vec; make generate runs it.
//
// Kernels of gemm (tiles and packing) are regular: one accumulator register per (row, vector) and the same step for
// every k, so a short program states them once instead of thousands of lines by hand. Each kernel of vec is described
// once too, in the file named after its family (kernels.go, functions.go, norm.go, products.go, softmax.go), and is
// written for AVX-512, for AVX2 with FMA and for NEON, with their declarations and their table of functions (table.go).
// Descriptions are in the instructions of AVX; vecneon.go says how NEON does the same. Instructions the Go assembler
// does not know (AVX512-BF16, AMX, much of NEON) are encoded as bytes (encode.go, neon.go).
//
// Why not avo (github.com/mmcloughlin/avo): it knows neither AMX nor AVX512-BF16.
package main

//go:generate go run .
