package main

// Registers and distances of split.
const (
	splitWord = 24   // the register that holds a part
	splitTmp  = 25   // scratch
	splitPart = 2048 // bytes between the parts of 32 values of k in a panel
)

// packsSplit writes the packing routines of float32 as three bf16 parts, x = x0 + x1 + x2: x0 is x rounded to bf16, x1
// what remains rounded to bf16, x2 the rest, which is exact.
func packsSplit() string {
	g := newGen()
	copyPanels(g, "splitPanels512", true, 3)
	roundRow(g, "splitRow512", 3)
	splitTranspose(g)
	splitPairs(g)
	pairOrder(g)
	return g.String()
}

// split rounds Z[lo], Z[hi] (32 values of float32) to bf16 in Z[splitWord], as many times as there are parts, each time
// what the parts before leave; store takes each. It clobbers both and Z[splitTmp].
func split(g *gen, lo, hi, parts int, store func(part int)) {
	for part := range parts {
		g.cvt2bf16(splitWord, hi, lo)
		if part < parts-1 {
			g.ins("VPMOVZXWD Y%d, Z%d", splitWord, splitTmp)
			g.ins("VPSLLD $16, Z%d, Z%d", splitTmp, splitTmp)
			g.ins("VSUBPS Z%d, Z%d, Z%d", splitTmp, lo, lo)
			g.ins("VEXTRACTI64X4 $1, Z%d, Y%d", splitWord, splitTmp)
			g.ins("VPMOVZXWD Y%d, Z%d", splitTmp, splitTmp)
			g.ins("VPSLLD $16, Z%d, Z%d", splitTmp, splitTmp)
			g.ins("VSUBPS Z%d, Z%d, Z%d", splitTmp, hi, hi)
		}
		store(part)
	}
}

// toScratch splits row r of 16 pairs, in Z0 and Z1, into scratch memory [part][16 rows][16 pairs] at R13.
func toScratch(g *gen, r int, interleave bool) {
	split(g, 0, 1, 3, func(part int) {
		if interleave {
			g.ins("VPERMW Z%d, Z31, Z%d", splitWord, splitWord)
		}
		g.ins("VMOVUPS Z%d, %d(R13)", splitWord, 1024*part+64*r)
	})
}

// turnScratch writes the transposes of the parts in scratch memory to DI, which it moves behind them.
func turnScratch(g *gen) {
	g.ins("MOVQ R13, SI\n\tMOVQ $3, BX")
	g.label("turn")
	for r := range 16 {
		g.ins("VMOVUPS %d(SI), Z%d", 64*r, r)
	}
	turn16(g)
	for r := range 16 {
		g.ins("VMOVUPS Z%d, %d(DI)", r, 64*r)
	}
	g.ins("ADDQ $1024, SI\n\tADDQ $%d, DI\n\tDECQ BX\n\tJNZ turn", splitPart)
}

// splitTranspose turns 16 source rows (pointers) into 16 rows of 16 lanes for each 32 values and part.
func splitTranspose(g *gen) {
	packHead(g, "splitTranspose512")
	g.ins("MOVQ %d(AX), R12\n\tMOVQ %d(AX), R13", pkK, pkTmp)
	g.ins("XORQ DX, DX")
	g.label("block")
	g.ins("MOVL $32, R9\n\tCMPQ R12, R9\n\tCMOVQLT R12, R9")
	lanes(g, "R9", 1, 2)
	for r := range 16 {
		g.ins("MOVQ %d(AX), BX", pkPtr+8*r)
		g.ins("VMOVUPS.Z (BX)(DX*1), K1, Z0\n\tPREFETCHT0 %d(BX)(DX*1)", prefetch)
		g.ins("VMOVUPS.Z 64(BX)(DX*1), K2, Z1\n\tPREFETCHT0 %d(BX)(DX*1)", prefetch+64)
		toScratch(g, r, false)
	}
	turnScratch(g)
	g.ins("ADDQ $128, DX\n\tSUBQ $32, R12\n\tJG block")
	g.ins("VZEROUPPER\n\tRET")
}

// splitPairs turns 32 source rows of at most 16 columns into 16 rows of 16 bf16 pairs for each part.
func splitPairs(g *gen) {
	packHead(g, "splitPairs512")
	g.ins("MOVQ %d(AX), R13", pkTmp)
	lanes(g, "R9", 1, 2)
	g.ins("VMOVDQU64 pairs<>(SB), Z31")
	for r := range 16 {
		g.ins("MOVQ %d(AX), BX\n\tMOVQ %d(AX), DX", pkPtr+16*r, pkPtr+16*r+8)
		g.ins("VMOVUPS.Z (BX), K1, Z0\n\tVMOVUPS.Z (DX), K1, Z1")
		toScratch(g, r, true)
	}
	turnScratch(g)
	g.ins("VZEROUPPER\n\tRET")
}
