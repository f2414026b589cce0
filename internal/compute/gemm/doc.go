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
// Where few rows meet a large operand, packing it would take a third of the time: the kernel then reads its rows in
// place (transposed.go). Rows that the caller computes may go into an operand's panels at once (rows.go).
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
// AVX512-BF16 alone: processors of Intel take twice as long for a dot product of pairs as for two float32 operations,
// so rounded values are multiplied as float32 there, and pairs are used on others.
//
// Float32 on AMX: x = x0 + x1 + x2 with x0 = bf16(x), x1 = bf16(x - x0), x2 the rest, which is a bf16 too. Of the nine
// products of parts the six largest are summed, in float32; what is left out is below 2^-25 of the product (Henry, Tang
// and Heinecke, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, ARITH
// 2019). The result is closer to the exact one than the result of a float32 kernel, because a tile adds 32 terms before
// it rounds into the sum, and it comes sooner where there are 64 terms or more (splits). Products of fewer go to
// avx512.
//
// FixedPoint on AMX: 256 terms of a row of A or a column of B at a time become integers of 24 bits, q = x / scale with
// the largest |x| at 8355008, and these three digits of 8 bits; of the nine products of digits the six larger ones are
// summed, exactly, by tiles of integers (Ootomo, Ozaki and Yokota, DGEMM on Integer Matrix Multiplication Unit, IJHPCA
// 2024, with fewer digits). What is lost is some 2^-25 √terms of the largest |a| times the largest |b|, where float32
// loses 2^-25 of each product and of each sum: the same for values of one size, with many terms less
// (TestFixedPointIsAsAccurateAsFloat32), but small values beside a large one in their row lose their lower bits. It
// does twice the arithmetic of the parts, and half their bytes.
//
// Besides, "gonum", "openblas" and "mkl" hand the float32 products to those libraries, and on macOS "accelerate" to
// Apple's, which nobody has tried: it is compiled and no more.
//
// # What holds for the results
//
// With our own kernels (no library) element C[i, j] is computed by the same operations in the same order
// whatever the number of threads, M, N, the strides and the position of the row and the column: it is a
// function of row i of op(A), column j of op(B), K, alpha, beta, C[i, j] and bias[j] alone. So results are
// bit-identical for any thread count, and a row does not change when other rows join the product, whether B was packed
// before or not. Kernels differ from each other in rounding.
//
// beta = 0 means C is not read (NaN there does not leak). K = 0 or alpha = 0 leaves beta * C + bias and reads neither A
// nor B. Bf16 kernels of the hardware treat subnormal operands as zero; the emulated one keeps them. Float32 in bf16
// parts loses bits of operands below 2^-110, and an infinite operand may give NaN; in fixed point those below 2^-100
// do, and a value that is not finite makes its whole row or column NaN or infinite.
//
// # Why not a library
//
// The products of gonum use neither AVX-512 nor AMX. OpenBLAS and MKL have to be installed, and the property above does
// not hold for them. VSETRAIN_BLAS chooses each of them, to compare with.
package gemm
