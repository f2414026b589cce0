package main

import "fmt"

const rowsAVX2 = 6 // 12 accumulators of 16 registers

// tilesAVX2 writes the float32 tile kernel of AVX2+FMA: C[m, 16], m <= 6, the accumulators of row r in
// Y(4+2r), Y(5+2r). Narrower tiles go through a full-width scratch tile (gemm/padded.go).
func tilesAVX2() string {
	g := new(file)
	g.text("tileAVX2", "(t *tile)", 0, 8)
	g.ins("MOVQ t+0(FP), AX")
	g.ins("MOVQ %d(AX), SI", offA)
	g.ins("MOVQ %d(AX), DI", offB)
	g.ins("MOVQ %d(AX), DX", offC)
	g.ins("MOVQ %d(AX), CX", offK)
	g.ins("MOVQ %d(AX), R8", offLDC)
	g.ins("SHLQ $2, R8")
	g.ins("MOVQ %d(AX), R9", offM)
	for m := rowsAVX2; m > 1; m-- {
		g.ins("CMPQ R9, $%d\n\tJEQ rows%d", m, m)
	}
	for m := 1; m <= rowsAVX2; m++ {
		bodyAVX2(g, fmt.Sprintf("rows%d", m), m)
		g.ins("JMP store")
	}
	storeAVX2(g)
	return g.String()
}

func bodyAVX2(g *file, label string, m int) {
	g.label("%s", label)
	for r := range 2 * m {
		g.ins("VXORPS Y%d, Y%d, Y%d", 4+r, 4+r, 4+r)
	}
	g.label("%sloop", label)
	g.ins("VMOVUPS 0(DI), Y0\n\tVMOVUPS 32(DI), Y1")
	for r := range m {
		t := 2 + r&1
		g.ins("VBROADCASTSS %d(SI), Y%d", 4*r, t)
		g.ins("VFMADD231PS Y0, Y%d, Y%d", t, 4+2*r)
		g.ins("VFMADD231PS Y1, Y%d, Y%d", t, 5+2*r)
	}
	g.ins("ADDQ $64, DI\n\tADDQ $%d, SI\n\tDECQ CX\n\tJNZ %sloop", 4*m, label)
}

func storeAVX2(g *file) {
	g.label("store")
	g.ins("VBROADCASTSS %d(AX), Y0", offAlpha)
	g.ins("VBROADCASTSS %d(AX), Y1", offBeta)
	g.ins("MOVL %d(AX), R11", offBeta)
	g.ins("MOVQ %d(AX), BX", offBias)
	g.ins("VXORPS Y2, Y2, Y2\n\tVXORPS Y3, Y3, Y3")
	g.ins("TESTQ BX, BX\n\tJZ nobias")
	g.ins("VMOVUPS (BX), Y2\n\tVMOVUPS 32(BX), Y3")
	g.label("nobias")
	g.ins("TESTL R11, R11\n\tJNZ storebeta")
	for _, beta := range []bool{false, true} {
		if beta {
			g.label("storebeta")
		}
		for r := range rowsAVX2 {
			for v := range 2 {
				acc := 4 + 2*r + v
				g.ins("VFMADD213PS Y%d, Y0, Y%d", 2+v, acc)
				if beta {
					g.ins("VFMADD231PS %d(DX), Y1, Y%d", 32*v, acc)
				}
				g.ins("VMOVUPS Y%d, %d(DX)", acc, 32*v)
			}
			if r < rowsAVX2-1 {
				g.ins("DECQ R9\n\tJZ done%v", beta)
				g.ins("ADDQ R8, DX")
			}
		}
		g.label("done%v", beta)
		g.ins("VZEROUPPER\n\tRET")
	}
}
