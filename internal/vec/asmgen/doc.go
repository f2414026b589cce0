// Command asmgen writes the vector kernels of internal/vec in Go assembly. Each kernel is described once, in a function
// of the file named after its family (kernels.go, functions.go, norm.go, products.go, softmax.go), and is written for
// AVX-512 and for AVX2 with FMA. Run it with go generate in internal/vec.
//
// Why not avo (github.com/mmcloughlin/avo): it does not know all instructions of package gemm (AMX, AVX512-BF16), and
// one way of writing kernels serves both packages.
package main
