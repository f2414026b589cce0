package main

import "fmt"

const rowsAVX2 = 6 // 12 accumulators of 16 registers

// tilesAVX2 writes the float32 tile kernel of AVX2+FMA: C[m, 16], m <= 6, the accumulators of row r in
// Y(4+2r), Y(5+2r). Narrower tiles go through a full-width scratch tile (see tile_amd64.go).
func tilesAVX2() string {
	g := newGen()
	g.Raw("\n// func tileAVX2(t *tile)")
	g.text("tileAVX2", 0)
	g.Ins("MOVQ t+0(FP), AX")
	g.Ins("MOVQ %d(AX), SI", offA)
	g.Ins("MOVQ %d(AX), DI", offB)
	g.Ins("MOVQ %d(AX), DX", offC)
	g.Ins("MOVQ %d(AX), CX", offK)
	g.Ins("MOVQ %d(AX), R8", offLDC)
	g.Ins("SHLQ $2, R8")
	g.Ins("MOVQ %d(AX), R9", offM)
	for m := rowsAVX2; m > 1; m-- {
		g.Ins("CMPQ R9, $%d\n\tJEQ rows%d", m, m)
	}
	for m := 1; m <= rowsAVX2; m++ {
		bodyAVX2(g, fmt.Sprintf("rows%d", m), m)
		g.Ins("JMP store")
	}
	storeAVX2(g)
	return g.String()
}

func bodyAVX2(g *gen, label string, m int) {
	g.Label("%s", label)
	for r := range 2 * m {
		g.Ins("VXORPS Y%d, Y%d, Y%d", 4+r, 4+r, 4+r)
	}
	g.Label("%sloop", label)
	g.Ins("VMOVUPS 0(DI), Y0\n\tVMOVUPS 32(DI), Y1")
	for r := range m {
		t := 2 + r&1
		g.Ins("VBROADCASTSS %d(SI), Y%d", 4*r, t)
		g.Ins("VFMADD231PS Y0, Y%d, Y%d", t, 4+2*r)
		g.Ins("VFMADD231PS Y1, Y%d, Y%d", t, 5+2*r)
	}
	g.Ins("ADDQ $64, DI\n\tADDQ $%d, SI\n\tDECQ CX\n\tJNZ %sloop", 4*m, label)
}

func storeAVX2(g *gen) {
	g.Label("store")
	g.Ins("VBROADCASTSS %d(AX), Y0", offAlpha)
	g.Ins("VBROADCASTSS %d(AX), Y1", offBeta)
	g.Ins("MOVL %d(AX), R11", offBeta)
	g.Ins("MOVQ %d(AX), BX", offBias)
	g.Ins("VXORPS Y2, Y2, Y2\n\tVXORPS Y3, Y3, Y3")
	g.Ins("TESTQ BX, BX\n\tJZ nobias")
	g.Ins("VMOVUPS (BX), Y2\n\tVMOVUPS 32(BX), Y3")
	g.Label("nobias")
	g.Ins("TESTL R11, R11\n\tJNZ storebeta")
	for _, beta := range []bool{false, true} {
		if beta {
			g.Label("storebeta")
		}
		for r := range rowsAVX2 {
			for v := range 2 {
				acc := 4 + 2*r + v
				g.Ins("VFMADD213PS Y%d, Y0, Y%d", 2+v, acc)
				if beta {
					g.Ins("VFMADD231PS %d(DX), Y1, Y%d", 32*v, acc)
				}
				g.Ins("VMOVUPS Y%d, %d(DX)", acc, 32*v)
			}
			if r < rowsAVX2-1 {
				g.Ins("DECQ R9\n\tJZ done%v", beta)
				g.Ins("ADDQ R8, DX")
			}
		}
		g.Label("done%v", beta)
		g.Ins("VZEROUPPER\n\tRET")
	}
}
