package main

// Layout of a panel of fixed-point operands (gemm/fixed_amd64.go).
const (
	fixedPart  = 2048          // bytes between the digits of a step
	fixedStep  = 3 * fixedPart // bytes between steps of 64 values of k
	fixedWords = fixedStep / 128
	fixedFetch = 4    // cache lines of the next panel of b that a step fetches into the level-2 cache
	fixedSums  = 1024 // bytes between the sums of a tile in scratch memory
)

// tileFixedAMX writes the kernel of fixed-point products, C[m, n] for any number of rows and columns in panels of 32.
//
// A tile of 16 x 16 elements has three sums of products of digits, by their weight: T0 of a0 b0, T1 of a0 b1 + a1 b0,
// T2 of a0 b2 + a1 b1 + a2 b0. A step takes 64 values of k: digits of a in T3 and T4, of b in T5 to T7. The sums go to
// scratch memory, and from there, while the next tile is multiplied, four rows a step to C:
//
//	C = alpha (T0 + T1/256 + T2/65536) scale_a scale_b + beta C + bias
//
// Rows of C that are not read (beta = 0: the first terms of a product, later ones find them near) are fetched into the
// level-2 cache, four a step, while their own tile is multiplied; at a distance of 4 KB they would drive each other out
// of the level-1 cache.
//
// On the stack: the panel of b, the part of C and the bias in work, the panel of a, its part of C, and the scratch
// memory that is free. The tile before: its sums at R8, rows of C at R13, scales of a at R14, rows left in R11; scales
// of b in Z24, bias in Z25, masks K5, and of what is read of C K6.
func tileFixedAMX(g *file) {
	g.text("tileFixedAMX", "(t *tile)", 56, 8)
	g.ins("LEAQ tilecfg<>(SB), AX")
	g.ldtilecfgAX()
	g.ins("MOVQ t+0(FP), R12")
	g.ins("MOVQ %d(R12), R10", offN)
	g.ins("MOVQ %d(R12), R15\n\tSHLQ $2, R15", offLDC)
	for i, off := range []int{offB, offC, offBias} {
		g.ins("MOVQ %d(R12), AX\n\tMOVQ AX, %d(SP)", off, 8*i)
	}
	g.ins("MOVQ %d(R12), BX\n\tLEAQ %d(BX), AX\n\tMOVQ AX, 40(SP)", offTmp, 3*fixedSums)
	g.ins("MOVL $0x3b800000, AX\n\tVPBROADCASTD AX, Z17") // 1/256
	g.ins("VBROADCASTSS %d(R12), Z18\n\tVBROADCASTSS %d(R12), Z19", offBeta, offAlpha)
	g.ins("MOVQ $64, DX\n\tXORL R11, R11")
	g.label("column")
	g.ins("MOVQ $32, R9\n\tCMPQ R10, R9\n\tCMOVQLT R10, R9")
	g.ins("MOVL $-1, CX\n\tBZHIL R9, CX, CX\n\tMOVL CX, AX\n\tSHRL $16, AX")
	g.ins("KMOVW CX, K1\n\tKMOVW AX, K2\n\tKXORW K3, K3, K3\n\tKXORW K4, K4, K4")
	g.ins("MOVL %d(R12), CX\n\tTESTL CX, CX\n\tJZ unread\n\tKMOVW K1, K3\n\tKMOVW K2, K4", offBeta)
	g.label("unread")
	g.ins("MOVQ %d(R12), CX\n\tSHLQ $7, CX\n\tADDQ 0(SP), CX", offK)
	g.ins("MOVQ CX, 48(SP)") // the next panel of b
	g.ins("VMULPS -128(CX), Z19, Z20\n\tVMULPS -64(CX), Z19, Z21")
	g.ins("VPXORQ Z22, Z22, Z22\n\tVPXORQ Z23, Z23, Z23")
	g.ins("CMPQ %d(R12), $0\n\tJEQ nobias\n\tMOVQ 16(SP), CX", offBias)
	g.ins("VMOVUPS.Z (CX), K1, Z22\n\tVMOVUPS.Z 64(CX), K2, Z23")
	g.label("nobias")
	g.ins("MOVQ %d(R12), AX\n\tMOVQ AX, 24(SP)\n\tMOVQ 8(SP), AX\n\tMOVQ AX, 32(SP)\n\tMOVQ %d(R12), R9", offA, offM)
	g.label("panel")
	for i := range 2 {
		for j := range 2 {
			fixedTile(g, i, j)
		}
	}
	g.label("below")
	g.ins("MOVQ %d(R12), AX\n\tSHLQ $7, AX\n\tADDQ AX, 24(SP)", offK)
	g.ins("MOVQ R15, AX\n\tSHLQ $5, AX\n\tADDQ AX, 32(SP)")
	g.ins("SUBQ $32, R9\n\tJG panel")
	g.ins("MOVQ %d(R12), AX\n\tSHLQ $7, AX\n\tADDQ AX, 0(SP)\n\tADDQ $128, 8(SP)\n\tADDQ $128, 16(SP)", offK)
	g.ins("SUBQ $32, R10\n\tJG column")
	fixedRest(g, "end")
	g.tilerelease()
	g.ins("VZEROUPPER\n\tRET")
}

// fixedTile multiplies tile (i, j) of a pair of panels and leaves its sums to the next.
func fixedTile(g *file, i, j int) {
	name := string(rune('a' + 2*i + j))
	past := "below" // where this tile has no rows or columns
	if j == 1 && i == 0 {
		past = "c"
	}
	g.label("%s", name)
	if i == 1 {
		g.ins("CMPQ R9, $16\n\tJLE %s", past)
	}
	if j == 1 {
		g.ins("CMPQ R10, $16\n\tJLE %s", past)
	}
	g.ins("MOVQ 32(SP), DI")
	if i == 1 {
		g.ins("MOVQ R15, SI\n\tSHLQ $4, SI\n\tADDQ SI, DI")
	}
	g.ins("XORL SI, SI\n\tMOVQ %d(R12), CX\n\tCMPL %d(R12), $0\n\tMOVQ DI, R12\n\tCMOVQNE SI, R12", offK, offBeta)
	g.ins("MOVQ 24(SP), SI\n\tMOVQ 0(SP), DI\n\tMOVQ 48(SP), AX")
	for t := range 3 {
		g.tilezero(t)
	}
	g.ins("CMPQ R11, $4\n\tJLT %salone", name)
	for _, rows := range []bool{true, false} {
		label := name + "alone"
		if rows {
			label = name + "step"
		}
		g.label("%s", label)
		a := func(t, digit int) { g.tileload(t, regSI, regDX, fixedPart*digit+1024*i) }
		b := func(t, digit int) { g.tileload(t, regDI, regDX, fixedPart*digit+1024*j) }
		a(3, 0)
		b(5, 0)
		g.tdpbssd(0, 3, 5)
		b(6, 1)
		g.tdpbssd(1, 3, 6)
		if rows {
			fixedRow(g, 0)
			fixedRow(g, 1)
		}
		a(4, 1)
		g.tdpbssd(1, 4, 5)
		g.tdpbssd(2, 4, 6)
		if rows {
			fixedRow(g, 2)
			fixedRow(g, 3)
			g.ins("ADDQ $256, R8\n\tADDQ $16, R14\n\tSUBQ $4, R11")
		}
		b(7, 2)
		g.tdpbssd(2, 3, 7)
		a(4, 2)
		g.tdpbssd(2, 4, 5)
		for f := range fixedFetch {
			g.ins("PREFETCHT1 %d(AX)", 64*f)
		}
		g.ins("TESTQ R12, R12\n\tJZ %snear", label)
		for range 4 {
			g.ins("PREFETCHT1 %d(R12)\n\tADDQ R15, R12", 64*j)
		}
		g.label("%snear", label)
		g.ins("ADDQ $%d, AX", 64*fixedFetch)
		g.ins("ADDQ $%d, SI\n\tADDQ $%d, DI\n\tSUBQ $%d, CX\n\tCMPQ CX, $1", fixedStep, fixedStep, fixedWords)
		if rows {
			g.ins("JEQ %sdone\n\tCMPQ R11, $4\n\tJGE %s", name, label)
		} else {
			g.ins("JNE %s", label)
		}
	}
	g.label("%sdone", name)
	g.ins("MOVQ AX, 48(SP)\n\tMOVQ t+0(FP), R12")
	fixedRest(g, name)
	for t := range 3 {
		g.tilestore(t, regBX, regDX, fixedSums*t)
	}
	g.ins("MOVQ BX, R8\n\tMOVQ 40(SP), AX\n\tMOVQ BX, 40(SP)\n\tMOVQ AX, BX")
	g.ins("MOVQ 32(SP), R13\n\tMOVQ $16, R11\n\tMOVQ %d(R12), R14\n\tSHLQ $7, R14\n\tADDQ 24(SP), R14", offK)
	if i == 1 {
		g.ins("MOVQ R15, AX\n\tSHLQ $4, AX\n\tADDQ AX, R13")
	}
	g.ins("ADDQ $%d, R13\n\tADDQ $%d, R14", 64*j, 64*i-128)
	g.ins("MOVQ R9, AX\n\tSUBQ $%d, AX\n\tCMPQ AX, R11\n\tCMOVQLT AX, R11", 16*i)
	g.ins("VMOVAPS Z%d, Z24\n\tVMOVAPS Z%d, Z25\n\tKMOVW K%d, K5\n\tKMOVW K%d, K6", 20+j, 22+j, 1+j, 3+j)
}

// fixedRow brings row r from where R8 and R14 are, the next one of C, into C.
func fixedRow(g *file, r int) {
	for s := range 3 {
		g.ins("VCVTDQ2PS %d(R8), Z%d", fixedSums*s+64*r, s)
	}
	g.ins("VFMADD213PS Z1, Z17, Z2\n\tVFMADD213PS Z0, Z17, Z2")
	g.ins("VMULPS.BCST %d(R14), Z24, Z3", 4*r)
	g.ins("VMOVUPS.Z (R13), K6, Z4\n\tVFMADD213PS Z25, Z18, Z4\n\tVFMADD231PS Z2, Z3, Z4")
	g.ins("VMOVUPS Z4, K5, (R13)\n\tADDQ R15, R13")
}

// fixedRest brings what is left of the tile before into C.
func fixedRest(g *file, name string) {
	g.label("%srest", name)
	g.ins("SUBQ $1, R11\n\tJLT %sempty", name)
	fixedRow(g, 0)
	g.ins("ADDQ $64, R8\n\tADDQ $4, R14\n\tJMP %srest", name)
	g.label("%sempty", name)
}
