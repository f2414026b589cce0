package main

import "fmt"

const rows512 = 14 // most rows of a panel: 28 accumulators, 4 registers left for operands

// loops512 are the most rows of each loop of a kernel: a loop is left after the rows that there are, so that one serves
// several heights and none tests after every row.
var loops512 = []int{5, 10, rows512}

// bases512 hold the addresses of rows 0, 5 and 10 of a.
var bases512 = [...]string{"SI", "BX", "R15"}

// tiles512 writes the float32, the bf16 and the integer tile kernels of AVX-512:
//
//	C[m, n] = alpha * sum_k a[k, m] * b[k, n] + beta * C + bias[n],   m <= 14, n <= 32
//
// a has floats (or pairs of bf16 or int16) at any distance from row to row and from k to k, b is a panel of 32 per k.
// Accumulators of row r are Z(4+2r), Z(5+2r). tileWidenAVX512 multiplies floats of a with bf16 pairs of b, which it
// widens: a step is two values of k. tileInt16VNNI multiplies pairs of int16 and sums them in int32.
func tiles512() string {
	g := new(file)
	multiply := func(acc, x, y int) { g.ins("VFMADD231PS Z%d, Z%d, Z%d", x, y, acc) }
	tile512(g, "tileAVX512", 1, multiply, "storeAVX512")
	tile512(g, "tileBF16AVX512", 1, g.dpbf16, "storeAVX512")
	tile512(g, "tileWidenAVX512", 2, multiply, "storeAVX512")
	tile512(g, "tileInt16VNNI", 1, func(acc, x, y int) { g.ins("VPDPWSSD Z%d, Z%d, Z%d", x, y, acc) },
		"storeInt16")
	g.raw("\n// Int16 sums become float32, and are stored as those.\nTEXT storeInt16<>(SB), NOSPLIT, $0-8")
	for acc := 4; acc < 4+2*rows512; acc++ {
		g.ins("VCVTDQ2PS Z%d, Z%d", acc, acc)
	}
	g.ins("JMP storeAVX512<>(SB)")
	store512(g)
	return g.String()
}

// tile512 writes a kernel whose steps take some values of k of a and add to Z[acc] products of Z[x] and Z[y]; store is
// where it ends.
//
// Rows of a are R13 bytes apart, values of a row R11; b is at DI.
func tile512(g *file, name string, values int, multiply func(acc, x, y int), store string) {
	g.text(name, "(t *tile)", 0, 8)
	g.ins("MOVQ t+0(FP), AX\n\tMOVQ %d(AX), SI\n\tMOVQ %d(AX), DI\n\tMOVQ %d(AX), DX", offA, offB, offC)
	g.ins("MOVQ %d(AX), CX\n\tMOVQ %d(AX), R8\n\tSHLQ $2, R8", offK, offLDC)
	g.ins("MOVQ %d(AX), R9\n\tMOVQ %d(AX), R10\n\tMOVQ %d(AX), R12", offM, offN, offPF)
	if values == 2 {
		g.ins("MOVL $0xaaaaaaaa, R11\n\tKMOVD R11, K3")
	}
	g.ins("MOVL $-1, R11\n\tBZHIL R10, R11, R11\n\tKMOVW R11, K1\n\tSHRL $16, R11\n\tKMOVW R11, K2")
	g.ins("MOVQ %d(AX), R13\n\tMOVQ %d(AX), R11\n\tLEAQ (R13)(R13*2), R14", offLDA, offStepA)
	for r := range 2 * rows512 {
		g.ins("VPXORQ Z%d, Z%d, Z%d", 4+r, 4+r, 4+r)
	}
	g.ins("MOVQ DX, BX\n\tMOVQ R9, R15")
	g.label("fetch")
	g.ins("PREFETCHT0 (BX)\n\tPREFETCHT0 64(BX)\n\tADDQ R8, BX\n\tDECQ R15\n\tJNZ fetch")
	g.ins("LEAQ (SI)(R13*4), BX\n\tADDQ R13, BX\n\tLEAQ (BX)(R13*4), R15\n\tADDQ R13, R15")
	g.ins("CMPQ R10, $16\n\tJLE from1x1")
	for _, nv := range []int{2, 1} {
		least := 1
		for _, most := range loops512 {
			g.label("from%dx%d", least, nv)
			if most < rows512 {
				g.ins("CMPQ R9, $%d\n\tJGT from%dx%d", most, most+1, nv)
			}
			loop512(g, least, most, nv, values, multiply)
			g.ins("JMP %s<>(SB)", store)
			least = most + 1
		}
	}
}

// loop512 multiplies from least to most rows, R9 of them, by nv vectors.
func loop512(g *file, least, most, nv, values int, multiply func(acc, x, y int)) {
	label := fmt.Sprintf("rows%dx%d", most, nv)
	g.label("%s", label)
	for i := range values {
		for v := range nv {
			switch {
			case values == 1:
				g.ins("VMOVUPS %d(DI), Z%d", 64*v, v)
			case i == 0: // the lower halves are the values of an even k
				g.ins("VPSLLD $16, %d(DI), Z%d", 64*v, v)
			default:
				g.ins("VMOVDQU16.Z %d(DI), K3, Z%d", 64*v, v)
			}
			if i == 0 {
				g.ins("PREFETCHT0 %d(DI)", 512+64*v)
			}
		}
		for r := range most {
			if r >= least {
				g.ins("CMPQ R9, $%d\n\tJEQ %sdone%d", r, label, i)
			}
			t := 2 + r&1
			index := [...]string{"", "(R13*1)", "(R13*2)", "(R14*1)", "(R13*4)"}[r%5]
			g.ins("VBROADCASTSS (%s)%s, Z%d", bases512[r/5], index, t)
			for v := range nv {
				multiply(4+2*r+v, v, t)
			}
		}
		g.label("%sdone%d", label, i)
		for r := 0; r < most; r += 5 {
			g.ins("ADDQ R11, %s", bases512[r/5])
		}
	}
	g.ins("PREFETCHT1 (R12)\n\tADDQ $64, R12\n\tADDQ $128, DI\n\tDECQ CX\n\tJNZ %s", label)
}

// store512 writes where kernels end: it scales the accumulators and stores them, row by row until R9 rows are done.
func store512(g *file) {
	g.raw("\nTEXT storeAVX512<>(SB), NOSPLIT, $0-8")
	g.ins("VBROADCASTSS %d(AX), Z0\n\tVBROADCASTSS %d(AX), Z1\n\tMOVL %d(AX), R11", offAlpha, offBeta, offBeta)
	g.ins("VPXORQ Z2, Z2, Z2\n\tVPXORQ Z3, Z3, Z3\n\tMOVQ %d(AX), BX\n\tTESTQ BX, BX\n\tJZ nobias", offBias)
	g.ins("VMOVUPS.Z (BX), K1, Z2\n\tVMOVUPS.Z 64(BX), K2, Z3")
	g.label("nobias")
	g.ins("CMPQ R10, $16\n\tJLE narrow")
	for _, nv := range []int{2, 1} {
		if nv == 1 {
			g.label("narrow")
		}
		g.ins("TESTL R11, R11\n\tJNZ beta%d", nv)
		for _, beta := range []bool{false, true} {
			if beta {
				g.label("beta%d", nv)
			}
			for r := range rows512 {
				for v := range nv {
					acc := 4 + 2*r + v
					g.ins("VFMADD213PS Z%d, Z0, Z%d", 2+v, acc)
					if beta {
						g.ins("VFMADD231PS %d(DX), Z1, K%d, Z%d", 64*v, 1+v, acc)
					}
					g.ins("VMOVUPS Z%d, K%d, %d(DX)", acc, 1+v, 64*v)
				}
				if r < rows512-1 {
					g.ins("DECQ R9\n\tJZ done\n\tADDQ R8, DX")
				}
			}
			if beta && nv == 1 {
				g.label("done")
				g.ins("VZEROUPPER\n\tRET")
			} else {
				g.ins("JMP done")
			}
		}
	}
}
