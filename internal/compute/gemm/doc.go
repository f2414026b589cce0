// Package gemm multiplies matrices: float32, bf16 with float32 accumulation, and float64.
//
//	C[M, N] = alpha * op(A)[M, K] * op(B)[K, N] + beta * C (+ bias[N] in each row)
//
// # How
//
// Operands are cut into blocks along K and packed into panels (a few rows of A, a few columns of B) which a small
// kernel in assembly multiplies with its whole result in registers, the scheme of Goto and van de Geijn
// (Anatomy of High-Performance Matrix Multiplication, TOMS 2008). The smaller operand is packed once and shared by
// all threads; each thread packs its own part of the larger one just before use, so every element is packed once.
// If few rows are multiplied by a large operand, packing it would take a third of the time: the kernel then reads its
// rows in place (transposed.go). Rows that the caller computes can be packed one by one (rows.go).
//
//	kernel      instructions                       panel of A x panel of B
//	amx         AMX-BF16 tiles, parts of float32   32 x 32
//	amx         AMX-INT8 tiles, digits             32 x 32   FixedPoint
//	avx512      AVX-512                            14 x 32
//	avx2        AVX2 + FMA                          6 x 16
//	neon        NEON of arm64                      12 x 8
//	generic     Go                                  4 x 4
//	amx         AMX-BF16 tiles                     32 x 32   bf16
//	avx512      AVX-512, B widened from bf16       14 x 32   bf16
//	avx512bf16  AVX512-BF16 dot products of pairs  14 x 32   bf16
//	neonbf16    BFMMLA of arm64 (FEAT_BF16)        12 x 8    bf16
//	avx512vnni  AVX512-VNNI, pairs of int16        14 x 32   Int16
//	emulated    operands rounded, float32 kernel             bf16
//
// AVX512-BF16 without AMX: Intel processors take twice as long for a dot product of pairs as for two float32
// operations, so rounded values are multiplied as float32 there. Other processors multiply pairs.
//
// Float32 on AMX: x = x0 + x1 + x2 with x0 = bf16(x), x1 = bf16(x - x0), and x2 the rest, which is a bf16 too. The six
// largest of the nine products of parts are summed in float32; the other three are below 2^-25 of the product (Henry,
// Tang and Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, ARITH
// 2019). The result is more accurate than a float32 kernel's, because a tile adds 32 terms before it rounds, and it is
// faster from 64 terms on (splits). Products of fewer terms use avx512.
//
// FixedPoint on AMX: blocks of 256 terms of a row of A or a column of B become integers of 24 bits, q = x / scale with
// the largest |x| at 8355008, as three digits of 8 bits. Tiles of integers sum the six largest of the nine products of
// digits exactly (Ootomo, Ozaki and Yokota, DGEMM on Integer Matrix Multiplication Unit, IJHPCA 2024, with fewer
// digits). The error is about 2^-25 √terms of the largest |a| times the largest |b|. Float32 loses 2^-25 of each
// product and of each sum. That is the same for values of a similar magnitude, and more for many terms
// (TestFixedPointIsAsAccurateAsFloat32), but small values in a row with a large one lose their lower bits. FixedPoint
// does twice the arithmetic of the bf16 parts, on half their bytes.
//
// "gonum", "openblas" and "mkl" pass float32 products to those libraries. "accelerate" passes them to Apple's library
// on macOS; it compiles, but is untested.
//
// # What holds for the results
//
// With our own kernels (no library), element C[i, j] is a function of row i of op(A), column j of op(B), K, alpha,
// beta, C[i, j] and bias[j] alone. It is computed by the same operations in the same order for any number of threads,
// M, N, strides, and position of the row and column. So results are bit-identical for any thread count, a row does not
// depend on other rows of the product, and it does not matter whether B was packed before. Kernels differ from each
// other in rounding.
//
// beta = 0 means that C is not read, so NaN there has no effect. K = 0 or alpha = 0 gives beta * C + bias and reads
// neither A nor B. The bf16 kernels of the hardware treat subnormal operands as zero; the emulated kernel does not.
// Float32 in bf16 parts loses bits of operands below 2^-110, and an infinite operand may give NaN. Fixed point loses
// bits of operands below 2^-100, and a value that is not finite makes its whole row or column NaN or infinite.
//
// # Why not a library
//
// The products of gonum use neither AVX-512 nor AMX. OpenBLAS and MKL have to be installed, and the property above does
// not hold for them. VSETRAIN_BLAS chooses each of them, to compare with.
package gemm
