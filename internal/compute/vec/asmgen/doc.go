// Command asmgen writes the vector kernels of internal/compute/vec in Go assembly. Each kernel is described once, in a
// function of the file named after its family (kernels.go, functions.go, norm.go, products.go, softmax.go), and is
// written for AVX-512, for AVX2 with FMA and for NEON, with their declarations and their table of functions (table.go).
// Descriptions are in the instructions of AVX; neon.go says how NEON does the same. Run it with go generate in
// internal/compute/vec.
package main
