package main

// tilesAMX writes the kernels of AMX.
func tilesAMX() string {
	g := new(file)
	g.raw("\n// Palette 1; eight tiles of 16 rows of 64 bytes.")
	for i, v := range []string{"1", "0", "0x0040004000400040", "0x0040004000400040", "0", "0",
		"0x1010101010101010", "0"} {
		g.data("tilecfg", 8*i, 8, v)
	}
	g.globl("tilecfg", 64)
	tileAMX(g, "tileAMX", bf16Terms)
	tileAMX(g, "tileFewAMX", fewTerms)
	tileAMX(g, "tileSplitAMX", splitTerms)
	tileFixedAMX(g)
	return g.String()
}

// terms are the products of parts of a and of b, counted from 0 with the largest first, whose sum a kernel computes in
// this order. Neighbours have a part in common, which stays in its registers.
type terms struct {
	parts int
	pairs [][2]int
	// fetch is how many cache lines of the next panel of b a step fetches: a call of the most rows fetches the whole
	// panel.
	fetch int
	// store is after how many steps a sum is stored in scratch memory, for nothing but speed, 0 for never: on Sapphire
	// Rapids the first tile store after more than about 130 tile products takes some 700 cycles longer.
	store int
}

var (
	bf16Terms = terms{parts: 1, pairs: [][2]int{{0, 0}}}
	// fewTerms are the same for one panel of more than 16 rows: each panel of b is read once, and the next one is
	// fetched meanwhile. With fewer rows that gains nothing.
	fewTerms = terms{parts: 1, pairs: [][2]int{{0, 0}}, fetch: 32}
	// splitTerms are the terms of a float32 product of three bf16 parts each that are not below its last bit: of the
	// nine, the three left out are less than 2^-25 of the product.
	splitTerms = terms{parts: 3, pairs: [][2]int{{2, 0}, {1, 0}, {1, 1}, {0, 1}, {0, 2}, {0, 0}}, fetch: 24, store: 4}
)

// tileAMX writes a kernel of AMX: C[m, n] for any number of rows and columns in panels of 32, each pair of panels as
// 2 x 2 hardware tiles of 16 x 16.
//
// A step takes 32 values of k (16 pairs): a panel of a holds two tiles [16 rows][16 pairs] of each part for it, b two
// tiles [16 pairs][16 columns]. The sums pass through tmp [32][32] and go, scaled, to C; the sums of whole panels with
// nothing to scale or add go there at once, and those that are only added to C take a shorter way, during which the
// next panel begins.
//
// Tile configuration and release cost as much as several steps, so a call does many panels; they stay inside one
// call because a goroutine may move to another thread between calls and tile state belongs to the thread.
//
// On the stack: the panel of b and the part of C and the bias in work, what whole panels need (0: scaling;
// 1: nothing; 2: C added), and what to fetch of the next panel of b.
func tileAMX(g *file, name string, ts terms) {
	g.text(name, "(t *tile)", 40, 8)
	g.ins("LEAQ tilecfg<>(SB), AX")
	g.ldtilecfgAX()
	g.ins("MOVQ t+0(FP), R12")
	g.ins("MOVQ %d(R12), R10", offN)
	g.ins("MOVQ %d(R12), R15\n\tSHLQ $2, R15", offLDC)
	for i, off := range []int{offB, offC, offBias} {
		g.ins("MOVQ %d(R12), AX\n\tMOVQ AX, %d(SP)", off, 8*i)
	}
	g.ins("XORL R8, R8\n\tTESTQ AX, AX\n\tJNZ scaled")
	g.ins("MOVL %d(R12), AX\n\tCMPL AX, $0x3f800000\n\tJNE scaled", offAlpha)
	g.ins("MOVL %d(R12), AX\n\tMOVL $1, CX\n\tMOVL $2, DX", offBeta)
	g.ins("TESTL AX, AX\n\tCMOVQEQ CX, R8\n\tCMPL AX, $0x3f800000\n\tCMOVQEQ DX, R8")
	g.label("scaled")
	g.ins("MOVQ R8, 24(SP)")
	g.ins("VBROADCASTSS %d(R12), Z0", offAlpha)
	g.ins("VBROADCASTSS %d(R12), Z1", offBeta)
	g.ins("MOVQ %d(R12), BX", offTmp)
	g.ins("MOVQ $64, DX\n\tMOVQ $128, AX")
	g.label("column")
	amxColumns(g)
	g.ins("MOVQ %d(R12), SI\n\tMOVQ %d(R12), R9\n\tMOVQ 8(SP), R14", offA, offM)
	if ts.fetch > 0 { // after the last panel of b there is none: fetch what is near
		g.ins("XORL R8, R8\n\tMOVQ %d(R12), AX\n\tSHLQ $7, AX\n\tCMPQ R10, $32\n\tCMOVQLE R8, AX", offK)
		g.ins("ADDQ 0(SP), AX\n\tMOVQ AX, 32(SP)")
	}
	g.label("panel")
	g.ins("MOVQ 0(SP), DI\n\tMOVQ %d(R12), CX", offK)
	g.ins("MOVQ R14, R13\n\tMOVQ R9, R11")
	g.ins("CMPQ R10, $16\n\tJLE narrow\n\tCMPQ R9, $16\n\tJLE short")
	amxLoop(g, "full", ts, 2, 2)
	g.label("short")
	amxLoop(g, "half", ts, 1, 2)
	g.label("narrow")
	g.ins("CMPQ R9, $16\n\tJLE small")
	amxLoop(g, "tall", ts, 2, 1)
	g.label("small")
	amxLoop(g, "one", ts, 1, 1)
	g.label("next")
	amxStore(g)
	g.ins("SUBQ $32, R9\n\tJG panel")
	g.ins("MOVQ %d(R12), R8\n\tSHLQ $7, R8\n\tADDQ R8, 0(SP)\n\tADDQ $128, 8(SP)\n\tADDQ $128, 16(SP)", offK)
	g.ins("SUBQ $32, R10\n\tJG column")
	g.tilerelease()
	g.ins("VZEROUPPER\n\tRET")
}

// Products of fewSteps and more, but not manySteps, fetch 24 rows of the result before they begin, for one a step comes
// too late for the last; the result of fewer steps is mostly near.
const fewSteps, manySteps = 4, 16

// amxLoop multiplies rt x ct tiles: sums T(2i+j), a in T4, T5, b in T6, T7. Meanwhile it fetches the rows of the
// result, one a step, and its share of the next panel of b into the level-2 cache.
func amxLoop(g *file, label string, ts terms, rt, ct int) {
	each := func(f func(t, disp int)) {
		for i := range rt {
			for j := range ct {
				f(2*i+j, 2048*i+64*j)
			}
		}
	}
	each(func(t, _ int) { g.tilezero(t) })
	if rt == 2 && ct == 2 {
		g.ins("LEAQ %d(CX), R8\n\tCMPQ R8, $%d\n\tJAE begun\n\tSUBQ $24, R11\n\tJLT begun", -16*ts.parts*fewSteps,
			16*ts.parts*(manySteps-fewSteps))
		for range 24 {
			g.ins("PREFETCHT1 (R13)\n\tPREFETCHT1 64(R13)\n\tADDQ R15, R13")
		}
		g.label("begun")
	}
	if ts.fetch > 0 {
		g.ins("MOVQ 32(SP), AX")
	}
	if ts.store > 0 {
		g.ins("MOVQ $%d, R8", ts.store+1)
	}
	g.label("%s", label)
	at := [2]int{-1, -1} // the parts in T4, T5 and in T6, T7
	fetched := 0
	for n, p := range ts.pairs {
		for ; fetched < ts.fetch*(n+1)/len(ts.pairs); fetched++ {
			g.ins("PREFETCHT1 %d(AX)", 64*fetched)
		}
		if at[1] != p[1] {
			for j := range ct {
				g.tileload(6+j, regDI, regDX, 2048*p[1]+1024*j)
			}
		}
		for i := range rt {
			if at[0] != p[0] {
				g.tileload(4+i, regSI, regDX, 2048*p[0]+1024*i)
			}
			for j := range ct {
				g.tdpbf16(2*i+j, 4+i, 6+j)
			}
		}
		at = p
	}
	g.ins("SUBQ $1, R11\n\tJLT %sfetched", label)
	g.ins("PREFETCHT0 (R13)\n\tPREFETCHT0 64(R13)\n\tADDQ R15, R13")
	g.label("%sfetched", label)
	g.ins("ADDQ $%d, SI\n\tADDQ $%d, DI", 2048*ts.parts, 2048*ts.parts)
	if ts.fetch > 0 {
		g.ins("ADDQ $%d, AX", 64*ts.fetch)
	}
	if ts.store > 0 {
		g.ins("DECQ R8\n\tJNZ %sunstored", label)
		g.tilestore(0, regBX, regDX, 0)
		g.ins("MOVQ $%d, R8", ts.store)
		g.label("%sunstored", label)
	}
	g.ins("SUBQ $%d, CX\n\tJNZ %s", 16*ts.parts, label)
	if ts.fetch > 0 {
		g.ins("MOVQ AX, 32(SP)\n\tMOVQ $128, AX")
	}
	if rt == 2 && ct == 2 {
		g.ins("CMPQ R9, $32\n\tJLT scale\n\tCMPQ R10, $32\n\tJLT scale")
		g.ins("CMPQ 24(SP), $1\n\tJLT scale\n\tJGT add")
		g.ins("MOVQ R14, CX\n\tMOVQ R15, DI\n\tMOVQ R15, R8\n\tSHLQ $4, R8")
		for i := range rt {
			for j := range ct {
				g.tilestore(2*i+j, regCX, regDI, 64*j)
			}
			g.ins("ADDQ R8, CX")
		}
		g.ins("MOVQ CX, R14\n\tJMP stored")
		g.label("add")
		for i := range rt {
			for j := range ct {
				g.tilestore(2*i+j, regBX, regAX, 2048*i+64*j)
			}
			for r := range 16 {
				for v := range 2 {
					g.ins("VMOVUPS %d(BX), Z4\n\tVADDPS %d(R14), Z4, Z4\n\tVMOVUPS Z4, %d(R14)", 2048*i+128*r+64*v,
						64*v, 64*v)
				}
				g.ins("ADDQ R15, R14")
			}
		}
		g.ins("JMP stored")
		g.label("scale")
	}
	each(func(t, disp int) { g.tilestore(t, regBX, regAX, disp) })
	g.ins("JMP next")
}

// amxColumns prepares a panel of columns: their masks K1, K2 and the bias Z2, Z3.
func amxColumns(g *file) {
	g.ins("MOVQ $32, R8\n\tCMPQ R10, R8\n\tCMOVQLT R10, R8")
	g.ins("MOVL $-1, CX\n\tBZHIL R8, CX, CX")
	g.ins("KMOVW CX, K1")
	g.ins("SHRL $16, CX")
	g.ins("KMOVW CX, K2")
	g.ins("VPXORQ Z2, Z2, Z2\n\tVPXORQ Z3, Z3, Z3")
	g.ins("MOVQ %d(R12), CX\n\tTESTQ CX, CX\n\tJZ nobias", offBias)
	g.ins("MOVQ 16(SP), CX")
	g.ins("VMOVUPS.Z (CX), K1, Z2\n\tVMOVUPS.Z 64(CX), K2, Z3")
	g.label("nobias")
}

// amxStore scales the sums of a panel in tmp into its rows of the result.
func amxStore(g *file) {
	g.ins("MOVQ BX, DI\n\tMOVQ R9, CX\n\tCMPQ CX, $32\n\tJLE rows\n\tMOVQ $32, CX")
	g.label("rows")
	g.ins("MOVL %d(R12), R8\n\tTESTL R8, R8\n\tJNZ rowbeta", offBeta)
	for _, beta := range []bool{false, true} {
		label := map[bool]string{false: "row", true: "rowbeta"}[beta]
		g.label("%s", label)
		for v := range 2 {
			g.ins("VMOVUPS %d(DI), Z%d", 64*v, 4+v)
			g.ins("VFMADD213PS Z%d, Z0, Z%d", 2+v, 4+v)
			if beta {
				g.ins("VFMADD231PS %d(R14), Z1, K%d, Z%d", 64*v, 1+v, 4+v)
			}
			g.ins("VMOVUPS Z%d, K%d, %d(R14)", 4+v, 1+v, 64*v)
		}
		g.ins("ADDQ $128, DI\n\tADDQ R15, R14")
		g.ins("DECQ CX\n\tJNZ %s", label)
		if !beta {
			g.ins("JMP stored")
		}
	}
	g.label("stored")
}
