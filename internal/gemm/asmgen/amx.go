package main

// tileAMX writes the bf16 kernel of AMX: C[m, n] for any number of rows in panels of 32, n <= 32 columns, each panel as
// 2 x 2 hardware tiles of 16 x 16.
//
// A step takes 32 values of k (16 pairs): a panel of a holds two tiles [16 rows][16 pairs] for it, b two tiles [16
// pairs][16 columns]. The sums of a panel pass through tmp [32][32] and go, scaled, to C.
//
// Tile configuration and release cost as much as several steps, so a call does many panels; they stay inside one
// call because a goroutine may move to another thread between calls and tile state belongs to the thread.
func tileAMX() string {
	g := newGen()
	g.raw("\n// Palette 1; eight tiles of 16 rows of 64 bytes.")
	g.raw("DATA tilecfg<>+0(SB)/8, $1\nDATA tilecfg<>+8(SB)/8, $0")
	g.raw("DATA tilecfg<>+16(SB)/8, $0x0040004000400040\nDATA tilecfg<>+24(SB)/8, $0x0040004000400040")
	g.raw("DATA tilecfg<>+32(SB)/8, $0\nDATA tilecfg<>+40(SB)/8, $0")
	g.raw("DATA tilecfg<>+48(SB)/8, $0x1010101010101010\nDATA tilecfg<>+56(SB)/8, $0")
	g.raw("GLOBL tilecfg<>(SB), RODATA|NOPTR, $64")
	g.raw("\n// func tileAMX(t *tile)")
	g.text("tileAMX", 0)
	g.ins("LEAQ tilecfg<>(SB), AX")
	g.ldtilecfgAX()
	g.ins("MOVQ t+0(FP), R12")
	g.ins("MOVQ %d(R12), SI", offA)
	g.ins("MOVQ %d(R12), R9", offM)
	g.ins("MOVQ %d(R12), R10", offN)
	g.ins("MOVQ %d(R12), R14\n\tMOVQ %d(R12), R15\n\tSHLQ $2, R15", offC, offLDC)
	amxScale(g)
	g.ins("MOVQ %d(R12), BX", offTmp)
	g.ins("MOVQ $64, DX\n\tMOVQ $128, AX")
	g.label("panel")
	g.ins("MOVQ %d(R12), DI\n\tMOVQ %d(R12), CX\n\tSHRQ $4, CX", offB, offK)
	g.ins("MOVQ R14, R13\n\tMOVQ R9, R11")
	g.ins("CMPQ R10, $16\n\tJLE narrow\n\tCMPQ R9, $16\n\tJLE short")
	amxLoop(g, "full", 2, 2)
	g.label("short")
	amxLoop(g, "half", 1, 2)
	g.label("narrow")
	g.ins("CMPQ R9, $16\n\tJLE small")
	amxLoop(g, "tall", 2, 1)
	g.label("small")
	amxLoop(g, "one", 1, 1)
	g.label("next")
	amxStore(g)
	g.ins("SUBQ $32, R9\n\tJG panel")
	g.tilerelease()
	g.ins("VZEROUPPER\n\tRET")
	return g.String()
}

// amxLoop multiplies rt x ct tiles: sums T(2i+j), a in T4, T5, b in T6, T7. Meanwhile it fetches the rows of the
// result, one a step.
func amxLoop(g *gen, label string, rt, ct int) {
	each := func(f func(t, disp int)) {
		for i := range rt {
			for j := range ct {
				f(2*i+j, 2048*i+64*j)
			}
		}
	}
	each(func(t, _ int) { g.tilezero(t) })
	g.label("%s", label)
	for j := range ct {
		g.tileload(6+j, regDI, regDX, 1024*j)
	}
	for i := range rt {
		g.tileload(4+i, regSI, regDX, 1024*i)
		for j := range ct {
			g.tdpbf16(2*i+j, 4+i, 6+j)
		}
	}
	g.ins("SUBQ $1, R11\n\tJLT %sfetched", label)
	g.ins("PREFETCHT0 (R13)\n\tPREFETCHT0 64(R13)\n\tADDQ R15, R13")
	g.label("%sfetched", label)
	g.ins("ADDQ $2048, SI\n\tADDQ $2048, DI")
	g.ins("DECQ CX\n\tJNZ %s", label)
	each(func(t, disp int) { g.tilestore(t, regBX, regAX, disp) })
	g.ins("JMP next")
}

// amxScale prepares what scales the sums: alpha Z0, beta Z1, bias Z2, Z3, the columns K1, K2.
func amxScale(g *gen) {
	g.ins("MOVL $-1, R8")
	g.ins("BZHIL R10, R8, R8")
	g.ins("KMOVW R8, K1")
	g.ins("SHRL $16, R8")
	g.ins("KMOVW R8, K2")
	g.ins("VBROADCASTSS %d(R12), Z0", offAlpha)
	g.ins("VBROADCASTSS %d(R12), Z1", offBeta)
	g.ins("MOVQ %d(R12), AX", offBias)
	g.ins("VPXORQ Z2, Z2, Z2\n\tVPXORQ Z3, Z3, Z3")
	g.ins("TESTQ AX, AX\n\tJZ nobias")
	g.ins("VMOVUPS.Z (AX), K1, Z2\n\tVMOVUPS.Z 64(AX), K2, Z3")
	g.label("nobias")
}

// amxStore scales the sums of a panel in tmp into its rows of the result.
func amxStore(g *gen) {
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
