package main

import "fmt"

// The tile of NEON: 24 accumulators of 32 registers, the accumulators of row r in V(2r), V(2r+1). Eight columns, for
// panels of B begin at multiples of blocks of 512 columns.
const (
	rowsNEON = 12
	colsNEON = 8
)

// Registers: R0 the tile, R1 a, R2 b, R3 C, R4 steps, R5 bytes between rows of C, R6 rows, R7 counts.

// tilesNEON writes the float32 and the bf16 tile kernels of arm64: C[m, 8], m <= 12. Narrower tiles go through a
// full-width scratch tile (gemm/padded.go).
func tilesNEON() string {
	g := new(file)
	tileNEON(g)
	tileBF16NEON(g)
	storeNEON(g)
	return g.String()
}

func beginNEON(g *file, name string) {
	g.text(name, "(t *tile)", 0, 8)
	g.ins("MOVD t+0(FP), R0")
	for i, off := range []int{offA, offB, offC, offK, offLDC, offM} {
		g.ins("MOVD %d(R0), R%d", off, 1+i)
	}
	g.ins("LSL $2, R5, R5")
}

func tileNEON(g *file) {
	beginNEON(g, "tileNEON")
	for m := rowsNEON; m > 1; m-- {
		g.ins("CMP $%d, R6\n\tBEQ rows%d", m, m)
	}
	for m := 1; m <= rowsNEON; m++ {
		bodyNEON(g, m)
		g.ins("B storeNEON<>(SB)")
	}
}

// bodyNEON accumulates m rows over R4 steps, four at a time.
func bodyNEON(g *file, m int) {
	label := fmt.Sprintf("rows%d", m)
	g.label("%s", label)
	clearNEON(g, 2*m)
	g.ins("LSR $2, R4, R7\n\tCBZ R7, %stail", label)
	g.ins("PCALIGN $32")
	g.label("%sloop", label)
	for u := range 4 {
		stepNEON(g, u, m)
	}
	g.ins("ADD $%d, R2\n\tADD $%d, R1", 4*4*colsNEON, 4*4*m)
	g.ins("SUBS $1, R7\n\tBNE %sloop", label)
	g.label("%stail", label)
	g.ins("ANDS $3, R4, R4\n\tBEQ %sdone", label)
	g.label("%sone", label)
	stepNEON(g, 0, m)
	g.ins("ADD $%d, R2\n\tADD $%d, R1", 4*colsNEON, 4*m)
	g.ins("SUBS $1, R4\n\tBNE %sone", label)
	g.label("%sdone", label)
}

func clearNEON(g *file, registers int) {
	for r := range registers {
		g.ins("VEOR V%d.B16, V%d.B16, V%d.B16", r, r, r)
	}
}

// stepNEON loads a row of b into V24 and V25 and m values of a into V26 and what follows, and no byte after them.
func stepNEON(g *file, u, m int) {
	g.ins("FLDPQ %d(R2), (F24, F25)", 4*u*colsNEON)
	type lane struct{ reg, element int }
	var lanes []lane
	at, reg := 4*u*m, 26
	load := func(values int, format string, args ...any) {
		g.ins(format, args...)
		for i := range values {
			r := reg + i/4
			lanes = append(lanes, lane{r, i % 4})
		}
		at, reg = at+4*values, reg+(values+3)/4
	}
	for left := m; left > 0; left = m - len(lanes) {
		switch {
		case left >= 8 && at%16 == 0:
			load(8, "FLDPQ %d(R1), (F%d, F%d)", at, reg, reg+1)
		case left >= 4:
			load(4, "FMOVQ %d(R1), F%d", at, reg)
		case left >= 2:
			load(2, "FMOVD %d(R1), F%d", at, reg)
		default:
			load(1, "FMOVS %d(R1), F%d", at, reg)
		}
	}
	for r, l := range lanes {
		g.fmlaElement(2*r, 24, l.reg, l.element)
		g.fmlaElement(2*r+1, 25, l.reg, l.element)
	}
}

// storeNEON writes where kernels end: it scales the accumulators and stores them, row by row until R6 rows are done.
func storeNEON(g *file) {
	g.raw("\nTEXT storeNEON<>(SB), NOSPLIT, $0-8")
	g.ins("FMOVS %d(R0), F28", offAlpha)
	g.ins("FMOVS %d(R0), F29", offBeta)
	g.ins("MOVWU %d(R0), R7", offBeta)
	g.ins("MOVD %d(R0), R8", offBias)
	g.ins("VEOR V26.B16, V26.B16, V26.B16\n\tVEOR V27.B16, V27.B16, V27.B16")
	g.ins("CBZ R8, nobias")
	g.ins("FLDPQ (R8), (F26, F27)")
	g.label("nobias")
	g.ins("CBNZ R7, storebeta")
	for _, beta := range []bool{false, true} {
		if beta {
			g.label("storebeta")
		}
		for r := range rowsNEON {
			g.ins("VMOV V26.B16, V24.B16\n\tVMOV V27.B16, V25.B16")
			g.fmlaElement(24, 2*r, 28, 0)
			g.fmlaElement(25, 2*r+1, 28, 0)
			if beta {
				g.ins("FLDPQ (R3), (F30, F31)")
				g.fmlaElement(24, 30, 29, 0)
				g.fmlaElement(25, 31, 29, 0)
			}
			g.ins("FSTPQ (F24, F25), (R3)")
			if r < rowsNEON-1 {
				g.ins("SUBS $1, R6\n\tBEQ done%v", beta)
				g.ins("ADD R5, R3")
			}
		}
		g.label("done%v", beta)
		g.ins("RET")
	}
}

// tileBF16NEON multiplies 2 x 4 blocks of A with 4 x 2 blocks of B: the sums of rows 2p, 2p+1 and columns 2q, 2q+1 are
// V(4p+q). Panels hold four values of k of each row one after the other, of all 12 rows of A whatever m is, and then
// the next four.
func tileBF16NEON(g *file) {
	const pairs = rowsNEON / 2
	beginNEON(g, "tileBF16NEON")
	g.ins("LSR $1, R4, R4") // words to steps
	for p := pairs; p > 1; p-- {
		g.ins("CMP $%d, R6\n\tBGE pairs%d", 2*p-1, p)
	}
	for p := 1; p <= pairs; p++ {
		g.label("pairs%d", p)
		clearNEON(g, 4*p)
		g.ins("PCALIGN $32")
		g.label("pairs%dloop", p)
		g.ins("FLDPQ (R2), (F24, F25)\n\tFLDPQ 32(R2), (F26, F27)")
		for r := range p {
			a := 28 + r%4
			if r%2 == 0 && r+1 < p {
				g.ins("FLDPQ %d(R1), (F%d, F%d)", 16*r, a, a+1)
			} else if r%2 == 0 {
				g.ins("FMOVQ %d(R1), F%d", 16*r, a)
			}
			for q := range 4 {
				g.insNeon("BFMMLA", 4*r+q, a, 24+q)
			}
		}
		g.ins("ADD $%d, R2\n\tADD $%d, R1", 8*colsNEON, 8*rowsNEON)
		g.ins("SUBS $1, R4\n\tBNE pairs%dloop", p)
		g.ins("B pairs%drows", p)
	}
	for p := pairs; p >= 1; p-- {
		g.label("pairs%drows", p)
		v := 4 * (p - 1)
		g.insNeon("ZIP1.2D", 24, v, v+1)
		g.insNeon("ZIP1.2D", 25, v+2, v+3)
		g.insNeon("ZIP2.2D", 26, v, v+1)
		g.insNeon("ZIP2.2D", 27, v+2, v+3)
		for i := range 4 {
			g.ins("VMOV V%d.B16, V%d.B16", 24+i, v+i)
		}
	}
	g.ins("B storeNEON<>(SB)")
}

// packsNEON writes the routines that round to bf16 and pack groups of four values of k.
func packsNEON() string {
	g := new(file)
	g.text("packRowNEON", "(dst, src *float32, quads, stride int)", 0, 32)
	g.ins("MOVD dst+0(FP), R0\n\tMOVD src+8(FP), R1\n\tMOVD quads+16(FP), R2\n\tMOVD stride+24(FP), R3")
	g.label("row")
	g.ins("FMOVQ (R1), F0")
	g.insNeon("BFCVTN", 0, 0)
	g.ins("FMOVD F0, (R0)")
	g.ins("ADD $16, R1\n\tADD R3, R0")
	g.ins("SUBS $1, R2\n\tBNE row")
	g.ins("RET")

	g.text("packColsNEON", "(dst, src *float32, quads, stride, ld int)", 0, 40)
	g.ins("MOVD dst+0(FP), R0\n\tMOVD src+8(FP), R1\n\tMOVD quads+16(FP), R2\n\tMOVD stride+24(FP), R3")
	g.ins("MOVD ld+32(FP), R4")
	g.label("cols")
	for i := range 4 { // a row of four columns each
		g.ins("FMOVQ (R1), F%d\n\tADD R4, R1", i)
	}
	g.insNeon("ZIP1", 4, 0, 2)
	g.insNeon("ZIP2", 5, 0, 2)
	g.insNeon("ZIP1", 6, 1, 3)
	g.insNeon("ZIP2", 7, 1, 3)
	g.insNeon("ZIP1", 0, 4, 6) // a column of four rows each
	g.insNeon("ZIP2", 1, 4, 6)
	g.insNeon("ZIP1", 2, 5, 7)
	g.insNeon("ZIP2", 3, 5, 7)
	g.insNeon("BFCVTN", 0, 0)
	g.insNeon("BFCVTN2", 0, 1)
	g.insNeon("BFCVTN", 2, 2)
	g.insNeon("BFCVTN2", 2, 3)
	g.ins("FMOVQ F0, (R0)\n\tFMOVQ F2, 16(R0)")
	g.ins("ADD R3, R0")
	g.ins("SUBS $1, R2\n\tBNE cols")
	g.ins("RET")
	return g.String()
}
