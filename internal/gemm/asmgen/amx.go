package main

// tileAMX writes the bf16 tile kernel of AMX: C[m, n] with m, n <= 32 as 2 x 2 hardware tiles of 16 x 16.
//
// Every k step takes 32 values of k (16 pairs): a holds two tiles [16 rows][16 pairs], b two tiles
// [16 pairs][16 columns]. Tile configuration and release stay inside one call, because a goroutine may move to
// another thread between calls and tile state belongs to the thread. Products go through a scratch tile
// [32][32] (tmp) and then, scaled, to C.
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
	g.ins("MOVQ t+0(FP), R14")
	g.ins("MOVQ %d(R14), SI", offA)
	g.ins("MOVQ %d(R14), DI", offB)
	g.ins("MOVQ %d(R14), CX", offK)
	g.ins("SHRQ $4, CX")
	g.ins("MOVQ %d(R14), R9", offM)
	g.ins("MOVQ %d(R14), R10", offN)
	g.ins("MOVQ %d(R14), BX", offTmp)
	g.ins("MOVQ $64, DX")
	g.ins("CMPQ R9, $16\n\tJLE short")
	g.ins("CMPQ R10, $16\n\tJLE tall")
	amxLoop(g, "full", 2, 2)
	g.label("tall")
	amxLoop(g, "talln", 2, 1)
	g.label("short")
	g.ins("CMPQ R10, $16\n\tJLE small")
	amxLoop(g, "shortw", 1, 2)
	g.label("small")
	amxLoop(g, "smalln", 1, 1)
	amxStore(g)
	return g.String()
}

// amxLoop multiplies rt x ct tiles: accumulators T(2i+j), a in T4, T5, b in T6, T7.
func amxLoop(g *gen, label string, rt, ct int) {
	for i := range rt {
		for j := range ct {
			g.tilezero(2*i + j)
		}
	}
	g.label("%s", label)
	for j := range ct {
		g.tileload(6+j, regDI, 1024*j)
	}
	for i := range rt {
		g.tileload(4+i, regSI, 1024*i)
		for j := range ct {
			g.tdpbf16(2*i+j, 4+i, 6+j)
		}
	}
	g.ins("ADDQ $2048, SI\n\tADDQ $2048, DI")
	g.ins("DECQ CX\n\tJNZ %s", label)
	g.ins("MOVQ $128, DX")
	for i := range rt {
		for j := range ct {
			g.tilestore(2*i+j, regBX, 2048*i+64*j)
		}
	}
	g.ins("JMP store")
}

func amxStore(g *gen) {
	g.label("store")
	g.tilerelease()
	g.ins("MOVQ %d(R14), DX", offC)
	g.ins("MOVQ %d(R14), R8", offLDC)
	g.ins("SHLQ $2, R8")
	g.ins("MOVL $-1, R11")
	g.ins("BZHIL R10, R11, R11")
	g.ins("KMOVW R11, K1")
	g.ins("SHRL $16, R11")
	g.ins("KMOVW R11, K2")
	g.ins("VBROADCASTSS %d(R14), Z0", offAlpha)
	g.ins("VBROADCASTSS %d(R14), Z1", offBeta)
	g.ins("MOVL %d(R14), R11", offBeta)
	g.ins("MOVQ %d(R14), AX", offBias)
	g.ins("VPXORQ Z2, Z2, Z2\n\tVPXORQ Z3, Z3, Z3")
	g.ins("TESTQ AX, AX\n\tJZ nobias")
	g.ins("VMOVUPS.Z (AX), K1, Z2\n\tVMOVUPS.Z 64(AX), K2, Z3")
	g.label("nobias")
	g.ins("TESTL R11, R11\n\tJNZ rowbeta")
	for _, beta := range []bool{false, true} {
		label := map[bool]string{false: "row", true: "rowbeta"}[beta]
		g.label("%s", label)
		for v := range 2 {
			g.ins("VMOVUPS %d(BX), Z%d", 64*v, 4+v)
			g.ins("VFMADD213PS Z%d, Z0, Z%d", 2+v, 4+v)
			if beta {
				g.ins("VFMADD231PS %d(DX), Z1, K%d, Z%d", 64*v, 1+v, 4+v)
			}
			g.ins("VMOVUPS Z%d, K%d, %d(DX)", 4+v, 1+v, 64*v)
		}
		g.ins("ADDQ $128, BX\n\tADDQ R8, DX")
		g.ins("DECQ R9\n\tJNZ %s", label)
		g.ins("VZEROUPPER\n\tRET")
	}
}
