package main

import "fmt"

// Offsets of struct packing (gemm/pack_amd64.go).
const (
	pkDst    = 0   // destination
	pkSrc    = 8   // source
	pkLD     = 16  // bytes between source rows
	pkRows   = 24  // source rows, or dwords per transposed row
	pkCols   = 32  // source columns, or destination lanes
	pkStride = 40  // bytes between destination rows
	pkNext   = 48  // bytes between destination panels, or blocks of 16 transposed rows
	pkHalf   = 56  // bytes between the two 16-column halves of a destination row
	pkK      = 64  // float32 values per transposed row (bf16: two per dword)
	pkPtr    = 72  // row pointers
	pkTmp    = 328 // scratch
	pkAhead  = 336 // bytes ahead that rows are fetched
	prefetch = 512 // bytes ahead while rows are transposed
)

// packs512 writes the packing routines of AVX-512: copies, transposes, and the same with rounding to bf16.
func packs512() string {
	g := new(file)
	copyPanels(g, "copyPanels512", false, 1)
	copyPanels(g, "pairPanels512", true, 1)
	copyRows(g, "copyRows512", false)
	copyRows(g, "pairRows512", true)
	transpose(g, "transpose512", false)
	transpose(g, "roundTranspose512", true)
	roundRow(g, "roundRow512")
	roundWords(g)
	pairTranspose(g)
	pairOrder(g)
	return g.String()
}

// pairOrder writes the order of words that interleaves two halves.
func pairOrder(g *file) {
	g.raw("\n// Order of words that interleaves two halves.")
	for i := 0; i < 32; i += 4 {
		v := uint64(i/2) | uint64(16+i/2)<<16 | uint64(i/2+1)<<32 | uint64(17+i/2)<<48
		g.data("pairs", 2*i, 8, fmt.Sprintf("%#x", v))
	}
	g.globl("pairs", 64)
}

func packHead(g *file, name string) {
	g.text(name, "(p *packing)", 0, 8)
	g.ins("MOVQ p+0(FP), AX")
	g.ins("MOVQ %d(AX), DI", pkDst)
	g.ins("MOVQ %d(AX), SI", pkSrc)
	g.ins("MOVQ %d(AX), R8", pkLD)
	g.ins("MOVQ %d(AX), CX", pkRows)
	g.ins("MOVQ %d(AX), R9", pkCols)
	g.ins("MOVQ %d(AX), R10", pkStride)
	g.ins("MOVQ %d(AX), R11", pkNext)
}

// lanes sets two k registers to the first n lanes of 32, n in reg (clobbered: BX).
func lanes(g *file, reg string, lo, hi int) {
	g.ins("MOVL $-1, BX")
	g.ins("BZHIL %s, BX, BX", reg)
	g.ins("KMOVW BX, K%d", lo)
	g.ins("SHRL $16, BX")
	g.ins("KMOVW BX, K%d", hi)
}

// copyPanels copies rows of many panels of 32 columns; with pair, rows 2i and 2i+1 become row i of bf16 pairs, of each
// part.
func copyPanels(g *file, name string, pair bool, parts int) {
	packHead(g, name)
	g.ins("MOVQ %d(AX), R12\n\tMOVQ %d(AX), R15", pkHalf, pkAhead)
	g.ins("MOVQ R9, R13\n\tANDQ $31, R13\n\tSHRQ $5, R9")
	lanes(g, "R13", 1, 2)
	step := 1
	if pair {
		step = 2
		if parts == 1 {
			g.ins("VMOVDQU64 pairs<>(SB), Z31")
		} else {
			splitOrders(g, true)
		}
		g.ins("CMPQ CX, $2\n\tJLT last")
	}
	row := func(label string, second bool) {
		g.label("%s", label)
		g.ins("MOVQ SI, AX\n\tMOVQ DI, BX\n\tMOVQ R9, DX")
		g.ins("TESTQ DX, DX\n\tJZ %stail", label)
		g.label("%spanel", label)
		for v := range 2 {
			g.ins("VMOVUPS %d(AX), Z%d", 64*v, v)
			if pair && second {
				g.ins("VMOVUPS %d(AX)(R8*1), Z%d", 64*v, 2+v)
			}
			g.ins("PREFETCHT0 %d(AX)(R15*1)", 64*v)
		}
		storePanel(g, pair, second, parts)
		g.ins("ADDQ $128, AX\n\tADDQ R11, BX\n\tDECQ DX\n\tJNZ %spanel", label)
		g.label("%stail", label)
		g.ins("TESTQ R13, R13\n\tJZ %snext", label)
		for v := range 2 {
			g.ins("VMOVUPS.Z %d(AX), K%d, Z%d", 64*v, 1+v, v)
			if pair && second {
				g.ins("VMOVUPS.Z %d(AX)(R8*1), K%d, Z%d", 64*v, 1+v, 2+v)
			}
		}
		storePanel(g, pair, second, parts)
		g.label("%snext", label)
	}
	row("row", true)
	g.ins("ADDQ R8, SI")
	if pair {
		g.ins("ADDQ R8, SI")
	}
	g.ins("ADDQ R10, DI\n\tSUBQ $%d, CX", step)
	if !pair {
		g.ins("JNZ row\n\tVZEROUPPER\n\tRET")
		return
	}
	g.ins("CMPQ CX, $2\n\tJGE row")
	g.label("last")
	g.ins("TESTQ CX, CX\n\tJZ done")
	row("odd", false)
	g.label("done")
	g.ins("VZEROUPPER\n\tRET")
}

// storePanel stores Z0, Z1 (row k), with pair those and Z2, Z3 (row k+1) as pairs.
func storePanel(g *file, pair, second bool, parts int) {
	if pair && !second {
		g.ins("VPXORQ Z2, Z2, Z2\n\tVPXORQ Z3, Z3, Z3")
	}
	at := []string{"(BX)", "(BX)(R12*1)"}
	for v := range 2 {
		if !pair {
			g.ins("VMOVUPS Z%d, %s", v, at[v])
			continue
		}
		if parts == 1 {
			g.cvt2bf16(v, 2+v, v)
			g.ins("VPERMW Z%d, Z31, Z%d\n\tVMOVUPS Z%d, %s", v, v, v, at[v])
			continue
		}
		split(g, v, 2+v, true, func(part int) { g.ins("VMOVUPS Z%d, %d%s", splitWord, splitPart*part, at[v]) })
	}
}

// copyRows copies rows of many panels of pkHalf <= 16 columns; with pair, rows 2i and 2i+1 become row i of bf16
// pairs. Rows of a narrower last panel are stored in its own width (its stride in the destination).
func copyRows(g *file, name string, pair bool) {
	packHead(g, name)
	g.ins("MOVQ %d(AX), R12", pkHalf)
	lanes(g, "R12", 1, 3)
	g.ins("MOVQ R9, AX\n\tXORQ DX, DX\n\tDIVQ R12\n\tMOVQ AX, R9\n\tMOVQ DX, R13") // full panels, rest
	lanes(g, "R13", 2, 3)
	g.ins("SHLQ $2, R12\n\tSHLQ $2, R13")
	g.ins("MOVQ R9, R10\n\tIMULQ R11, R10\n\tADDQ DI, R10") // the narrower panel
	if pair {
		g.ins("VMOVDQU64 pairs<>(SB), Z31")
	}
	move := func(k int, dst, label string) {
		g.ins("VMOVUPS.Z (AX), K%d, Z0\n\tPREFETCHT0 (AX)(R8*8)", k)
		if pair {
			g.ins("VPXORQ Z1, Z1, Z1\n\tCMPQ CX, $2\n\tJLT %s", label)
			g.ins("VMOVUPS.Z (AX)(R8*1), K%d, Z1", k)
			g.label("%s", label)
			g.cvt2bf16(0, 1, 0)
			g.ins("VPERMW Z0, Z31, Z0")
		}
		g.ins("VMOVUPS Z0, K%d, (%s)", k, dst)
	}
	g.label("row")
	g.ins("MOVQ SI, AX\n\tMOVQ DI, BX\n\tMOVQ R9, DX\n\tTESTQ DX, DX\n\tJZ rest")
	g.label("panel")
	move(1, "BX", "odd")
	g.ins("ADDQ R12, AX\n\tADDQ R11, BX\n\tDECQ DX\n\tJNZ panel")
	g.label("rest")
	g.ins("TESTQ R13, R13\n\tJZ next")
	move(2, "R10", "oddrest")
	g.ins("ADDQ R13, R10")
	g.label("next")
	g.ins("ADDQ R12, DI\n\tADDQ R8, SI")
	if pair {
		g.ins("ADDQ R8, SI\n\tSUBQ $2, CX\n\tJG row")
	} else {
		g.ins("DECQ CX\n\tJNZ row")
	}
	g.ins("VZEROUPPER\n\tRET")
}

// transpose turns 16 source rows (pointers) into destination rows of 16 lanes, 16 dwords at a time; with round,
// a dword is a bf16 pair of two neighbours of a row.
func transpose(g *file, name string, round bool) {
	packHead(g, name)
	g.ins("MOVQ %d(AX), R12", pkK)
	g.ins("XORQ DX, DX")
	lanes(g, "R9", 3, 4)
	wide := 16
	if round {
		wide = 32
	}
	g.label("block")
	g.ins("MOVL $0, R9\n\tCMPQ R12, $0\n\tCMOVQGT R12, R9\n\tMOVL $%d, BX\n\tCMPQ R9, BX\n\tCMOVQGT BX, R9", wide)
	lanes(g, "R9", 1, 2)
	for r := range 16 {
		g.ins("MOVQ %d(AX), BX", pkPtr+8*r)
		g.ins("VMOVUPS.Z (BX)(DX*1), K1, Z%d\n\tPREFETCHT0 %d(BX)(DX*1)", r, prefetch)
		if round {
			g.ins("VMOVUPS.Z 64(BX)(DX*1), K2, Z16\n\tPREFETCHT0 %d(BX)(DX*1)", prefetch+64)
			g.cvt2bf16(r, 16, r)
		}
	}
	turn16(g)
	g.ins("MOVQ DI, SI")
	for k := range 16 {
		g.ins("VMOVUPS Z%d, K3, (SI)\n\tADDQ R10, SI\n\tDECQ CX\n\tJZ done", k)
	}
	g.ins("ADDQ R11, DI\n\tADDQ $%d, DX\n\tSUBQ $%d, R12\n\tJMP block", 4*wide, wide)
	g.label("done")
	g.ins("VZEROUPPER\n\tRET")
}

// turn16 transposes Z0..Z15 as a 16 x 16 matrix of dwords in place.
func turn16(g *file) {
	for i := 0; i < 16; i += 2 {
		g.ins("VUNPCKLPS Z%d, Z%d, Z%d", i+1, i, 16+i)
		g.ins("VUNPCKHPS Z%d, Z%d, Z%d", i+1, i, 17+i)
	}
	for q := range 4 { // rows 4q..4q+3: lane l of Z(4q+c) is column 4l+c
		t := 16 + 4*q
		g.ins("VUNPCKLPD Z%d, Z%d, Z%d", t+2, t, 4*q)
		g.ins("VUNPCKHPD Z%d, Z%d, Z%d", t+2, t, 4*q+1)
		g.ins("VUNPCKLPD Z%d, Z%d, Z%d", t+3, t+1, 4*q+2)
		g.ins("VUNPCKHPD Z%d, Z%d, Z%d", t+3, t+1, 4*q+3)
	}
	for c := range 4 { // a 4 x 4 transpose of 128-bit lanes for each c
		a := 16 + 4*c
		g.ins("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 4+c, c, a)
		g.ins("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 4+c, c, a+1)
		g.ins("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", 12+c, 8+c, a+2)
		g.ins("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", 12+c, 8+c, a+3)
	}
	for c := range 4 {
		a := 16 + 4*c
		g.ins("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", a+2, a, c)
		g.ins("VSHUFF32X4 $0x88, Z%d, Z%d, Z%d", a+3, a+1, 4+c)
		g.ins("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", a+2, a, 8+c)
		g.ins("VSHUFF32X4 $0xdd, Z%d, Z%d, Z%d", a+3, a+1, 12+c)
	}
}

// roundRow rounds one row to bf16 and writes 32 values every pkNext bytes, zeros after its end.
func roundRow(g *file, name string) {
	packHead(g, name)
	g.ins("MOVQ %d(AX), R12", pkK)
	g.label("block")
	g.ins("CMPQ R12, $32\n\tJLT part")
	g.ins("VMOVUPS (SI), Z0\n\tVMOVUPS 64(SI), Z1")
	g.ins("PREFETCHT0 1024(SI)\n\tPREFETCHT0 1088(SI)")
	store := func() {
		g.cvt2bf16(0, 1, 0)
		g.ins("VMOVUPS Z0, (DI)")
	}
	store()
	g.ins("ADDQ R11, DI\n\tADDQ $128, SI\n\tSUBQ $32, R12")
	g.ins("SUBQ $16, CX\n\tJG block\n\tVZEROUPPER\n\tRET")
	g.label("part")
	g.ins("MOVL $0, BX\n\tTESTQ R12, R12\n\tCMOVQGT R12, BX\n\tMOVQ BX, R9")
	lanes(g, "R9", 1, 2)
	g.ins("VMOVUPS.Z (SI), K1, Z0\n\tVMOVUPS.Z 64(SI), K2, Z1")
	store()
	g.ins("VZEROUPPER\n\tRET")
}

// roundWords rounds pkCols float32 words from pkDst on to bf16, each in its place.
func roundWords(g *file) {
	packHead(g, "roundWords512")
	round := func() {
		g.cvt2bf16(0, 1, 0)
		g.ins("VEXTRACTI64X4 $1, Z0, Y1")
		for v := range 2 {
			g.ins("VPMOVZXWD Y%d, Z%d\n\tVPSLLD $16, Z%d, Z%d", v, v, v, v)
		}
	}
	g.label("block")
	g.ins("CMPQ R9, $32\n\tJLT part")
	g.ins("VMOVUPS (DI), Z0\n\tVMOVUPS 64(DI), Z1")
	round()
	g.ins("VMOVUPS Z0, (DI)\n\tVMOVUPS Z1, 64(DI)")
	g.ins("ADDQ $128, DI\n\tSUBQ $32, R9\n\tJMP block")
	g.label("part")
	lanes(g, "R9", 1, 2)
	g.ins("VMOVUPS.Z (DI), K1, Z0\n\tVMOVUPS.Z 64(DI), K2, Z1")
	round()
	g.ins("VMOVUPS Z0, K1, (DI)\n\tVMOVUPS Z1, K2, 64(DI)\n\tVZEROUPPER\n\tRET")
}

// pairTranspose turns 32 source rows of at most 16 columns into 16 destination rows of 16 bf16 pairs.
func pairTranspose(g *file) {
	packHead(g, "pairTranspose512")
	lanes(g, "R9", 1, 2)
	g.ins("VMOVDQU64 pairs<>(SB), Z31")
	for r := range 16 {
		g.ins("MOVQ %d(AX), BX\n\tMOVQ %d(AX), DX", pkPtr+16*r, pkPtr+16*r+8)
		g.ins("VMOVUPS.Z (BX), K1, Z%d\n\tVMOVUPS.Z (DX), K1, Z16", r)
		g.cvt2bf16(r, 16, r)
		g.ins("VPERMW Z%d, Z31, Z%d", r, r)
	}
	turn16(g)
	for k := range 16 {
		g.ins("VMOVUPS Z%d, (DI)", k)
		if k < 15 {
			g.ins("ADDQ R10, DI")
		}
	}
	g.ins("VZEROUPPER\n\tRET")
}
