package main

import "fmt"

// Offsets of struct packing as the fixed-point routines use it.
const pkScale = pkPtr // where scales go, 4 bytes each

// Registers of constants.
const (
	fxSign  = 27 // 0x80 in every byte
	fxOrder = 28 // order of bytes
	fxMagic = 29 // 0x808080 as a float32
	fxAbs   = 30 // everything but the sign of a float32
	fxTiny  = 31 // the least that a largest value is taken for
)

// packsFixed writes the packing routines of fixed-point operands: values of a row or column x, at most 256 of them,
// become integers q = x / scale of |q| <= 8355008, and these three digits from -128 to 127, q = 65536 d0 + 256 d1 + d2.
// With 0x808080 added the digits are bytes from 0 to 255, which is what the conversion makes; an exclusive or turns
// them into signed ones.
func packsFixed() string {
	g := new(file)
	fixRows(g)
	fixColumns(g)
	turnTiles(g)
	fixedData(g)
	return g.String()
}

func fixedData(g *file) {
	g.raw("\n// Order of bytes that collects those of each weight, the highest first, of 16 integers of three bytes.")
	at := func(i int) int { return 4*(i%16) + max(0, 2-i/16) }
	for i := 0; i < 64; i += 8 {
		v := uint64(0)
		for b := range 8 {
			v |= uint64(at(i+b)) << (8 * b)
		}
		g.data("digits", i, 8, fmt.Sprintf("%#x", v))
	}
	g.globl("digits", 64)
}

// fixedConstants loads the constants.
func fixedConstants(g *file) {
	for _, c := range []struct {
		reg  int
		bits uint32
	}{
		{fxSign, 0x80808080}, {fxMagic, 0x4b008080}, // 8421504
		{fxAbs, 0x7fffffff}, {fxTiny, 0x0d800000}, // 2^-100
	} {
		g.ins("MOVL $%#x, BX\n\tVPBROADCASTD BX, Z%d", c.bits, c.reg)
	}
	g.ins("VMOVDQU64 digits<>(SB), Z%d", fxOrder)
}

const (
	fixedMost  = 0x4afef980 // 8355008 as a float32: the largest q, 703 below what three digits hold
	fixedShare = 0x3c0083c7 // 65536 / 8355008
)

// fixRows packs pkCols rows of pkK values, pkLD bytes apart, 64 bytes apart in the panel.
func fixRows(g *file) {
	packHead(g, "fixRows512")
	g.ins("MOVQ %d(AX), R12\n\tMOVQ %d(AX), R13", pkK, pkScale)
	fixedConstants(g)
	// K1 to K4: the values of the last step; R11: steps before it
	g.ins("LEAQ -1(R12), R11\n\tSHRQ $6, R11\n\tMOVQ R11, CX\n\tSHLQ $6, CX\n\tSUBQ CX, R12")
	g.ins("MOVQ $-1, BX\n\tBZHIQ R12, BX, BX")
	for k := 1; k <= 4; k++ {
		g.ins("KMOVW BX, K%d\n\tSHRQ $16, BX", k)
	}
	g.ins("MOVL $%#x, R10\n\tMOVL $%#x, R12", fixedMost, fixedShare)
	g.ins("VMOVD R10, X25\n\tVMOVD R12, X26")
	g.label("row")
	g.ins("MOVQ SI, AX\n\tMOVQ R11, CX")
	for v := range 4 {
		g.ins("VPXORQ Z%d, Z%d, Z%d", v, v, v)
	}
	g.ins("TESTQ CX, CX\n\tJZ largestlast")
	g.label("largest")
	for v := range 4 {
		g.ins("VPANDD %d(AX), Z%d, Z%d\n\tVPMAXUD Z%d, Z%d, Z%d", 64*v, fxAbs, 8+v, 8+v, v, v)
	}
	g.ins("ADDQ $256, AX\n\tDECQ CX\n\tJNZ largest")
	g.label("largestlast")
	for v := range 4 {
		g.ins("VPANDD.Z %d(AX), Z%d, K%d, Z%d\n\tVPMAXUD Z%d, Z%d, Z%d", 64*v, fxAbs, 1+v, 8+v, 8+v, v, v)
	}
	g.ins("VPMAXUD Z1, Z0, Z0\n\tVPMAXUD Z3, Z2, Z2\n\tVPMAXUD Z2, Z0, Z0")
	g.ins("VEXTRACTI64X4 $1, Z0, Y1\n\tVPMAXUD Y1, Y0, Y0\n\tVEXTRACTI128 $1, Y0, X1\n\tVPMAXUD X1, X0, X0")
	g.ins("VPSHUFD $0x4e, X0, X1\n\tVPMAXUD X1, X0, X0\n\tVPSHUFD $0xb1, X0, X1\n\tVPMAXUD X1, X0, X0")
	g.ins("VPMAXUD X%d, X0, X0", fxTiny)
	g.ins("VDIVSS X0, X25, X1\n\tVMULSS X26, X0, X0\n\tVMOVSS X0, (R13)\n\tVBROADCASTSS X1, Z4")
	g.ins("MOVQ SI, AX\n\tMOVQ DI, BX\n\tMOVQ R11, CX\n\tTESTQ CX, CX\n\tJZ last")
	g.label("step")
	fixedRowStep(g, false)
	g.ins("ADDQ $256, AX\n\tADDQ $%d, BX\n\tDECQ CX\n\tJNZ step", fixedStep)
	g.label("last")
	fixedRowStep(g, true)
	g.ins("ADDQ R8, SI\n\tADDQ $64, DI\n\tADDQ $4, R13\n\tDECQ R9\n\tJNZ row")
	g.ins("VZEROUPPER\n\tRET")
}

// fixedRowStep packs 64 values at AX, divided by Z4, to BX.
func fixedRowStep(g *file, masked bool) {
	for v := range 4 {
		if masked {
			g.ins("VMOVUPS.Z %d(AX), K%d, Z%d", 64*v, 1+v, v)
		} else {
			g.ins("VMOVUPS %d(AX), Z%d", 64*v, v)
		}
		fixedConvert(g, v, 4)
		g.ins("VPERMB Z%d, Z%d, Z%d", v, fxOrder, v)
	}
	// 16 bytes of each weight a register: collect the bytes of a weight
	g.ins("VSHUFI64X2 $0x44, Z1, Z0, Z5\n\tVSHUFI64X2 $0x44, Z3, Z2, Z6")
	g.ins("VSHUFI64X2 $0xaa, Z1, Z0, Z7\n\tVSHUFI64X2 $0xaa, Z3, Z2, Z8")
	g.ins("VSHUFI64X2 $0x88, Z6, Z5, Z0\n\tVSHUFI64X2 $0xdd, Z6, Z5, Z1\n\tVSHUFI64X2 $0x88, Z8, Z7, Z2")
	for d := range 3 {
		g.ins("VPXORD Z%d, Z%d, Z%d\n\tVMOVDQU64 Z%d, %d(BX)", fxSign, d, d, d, fixedPart*d)
	}
}

// fixedConvert makes integers of Z[v] times Z[s], 0x808080 added.
func fixedConvert(g *file, v, s int) {
	g.ins("VFMADD213PS Z%d, Z%d, Z%d\n\tVCVTPS2DQ Z%d, Z%d", fxMagic, s, v, v, v)
}

// fixColumns packs pkRows rows, pkLD bytes apart, of pkCols columns, at most 32: their scales are the scales of the
// columns.
func fixColumns(g *file) {
	packHead(g, "fixColumns512")
	g.ins("MOVQ %d(AX), R13", pkScale)
	lanes(g, "R9", 1, 2)
	fixedConstants(g)
	g.ins("MOVQ $0xaaaaaaaaaaaaaaaa, BX\n\tKMOVQ BX, K7\n\tKMOVD BX, K6")
	for v := range 4 {
		g.ins("VPXORQ Z%d, Z%d, Z%d", v, v, v)
	}
	larger := func(at string, v int) {
		for h := range 2 {
			g.ins("VPANDD.Z %d%s, Z%d, K%d, Z%d\n\tVPMAXUD Z%d, Z%d, Z%d", 64*h, at, fxAbs, 1+h, 8+2*v+h, 8+2*v+h,
				2*v+h, 2*v+h)
		}
	}
	g.ins("MOVQ SI, AX\n\tMOVQ CX, R12\n\tSUBQ $2, R12\n\tJLT largestlast")
	g.label("largest")
	larger("(AX)", 0)
	larger("(AX)(R8*1)", 1)
	g.ins("LEAQ (AX)(R8*2), AX\n\tSUBQ $2, R12\n\tJGE largest")
	g.label("largestlast")
	g.ins("CMPQ R12, $-1\n\tJNE scales")
	larger("(AX)", 0)
	g.label("scales")
	g.ins("MOVL $%#x, BX\n\tVPBROADCASTD BX, Z25\n\tMOVL $%#x, BX\n\tVPBROADCASTD BX, Z26", fixedMost, fixedShare)
	for h := range 2 {
		g.ins("VPMAXUD Z%d, Z%d, Z%d\n\tVPMAXUD Z%d, Z%d, Z%d", 2+h, h, h, fxTiny, h, h)
		g.ins("VDIVPS Z%d, Z25, Z%d\n\tVMULPS Z26, Z%d, Z%d\n\tVMOVUPS Z%d, %d(R13)", h, 20+h, h, h, h, 64*h)
	}
	// groups of four rows; 16 groups a step
	// R12: groups left, R11: groups done
	g.ins("MOVQ CX, R12\n\tADDQ $63, R12\n\tSHRQ $6, R12\n\tSHLQ $4, R12\n\tXORL R11, R11")
	g.ins("LEAQ (R8)(R8*2), R10\n\tSUBQ $4, CX\n\tJLT rest")
	g.label("group")
	fixedGroup(g, 4)
	g.ins("LEAQ (SI)(R8*4), SI")
	fixedNextGroup(g, "group")
	g.ins("SUBQ $4, CX\n\tJGE group")
	g.label("rest")
	for n := 3; n > 0; n-- {
		g.ins("CMPQ CX, $%d\n\tJEQ rest%d", n-4, n)
	}
	g.ins("JMP zeros")
	for n := 1; n <= 3; n++ {
		g.label("rest%d", n)
		fixedGroup(g, n)
		fixedNextGroup(g, fmt.Sprintf("rest%d", n))
		if n < 3 {
			g.ins("JMP zeros")
		}
	}
	g.label("zeros")
	g.ins("TESTQ R12, R12\n\tJZ done\n\tVPXORQ Z0, Z0, Z0")
	g.label("zero")
	for d := range 3 {
		for h := range 2 {
			g.ins("VMOVDQU64 Z0, %d(DI)", fixedPart*d+1024*h)
		}
	}
	g.ins("ADDQ $64, DI\n\tDECQ R12\n\tJNZ zero") // they end with their step
	g.label("done")
	g.ins("VZEROUPPER\n\tRET")
}

// fixedNextGroup moves DI to the next group.
func fixedNextGroup(g *file, name string) {
	g.ins("ADDQ $64, DI\n\tDECQ R12\n\tINCQ R11\n\tTESTQ $15, R11\n\tJNZ %swithin\n\tADDQ $%d, DI", name,
		fixedStep-1024)
	g.label("%swithin", name)
}

// fixedGroup packs rows of a group of four, as many as there are.
func fixedGroup(g *file, rows int) {
	at := []string{"(SI)", "(SI)(R8*1)", "(SI)(R8*2)", "(SI)(R10*1)"}
	for h := range 2 {
		for r := range 4 {
			if r < rows {
				g.ins("VMOVUPS.Z %d%s, K%d, Z%d", 64*h, at[r], 1+h, r)
				fixedConvert(g, r, 20+h)
			} else {
				g.ins("VCVTPS2DQ Z%d, Z%d", fxMagic, r)
			}
		}
		// bytes 0 and 2 of a pair of rows in Z4 and Z6, byte 1 in Z5 and Z7
		for p := range 2 {
			x, y := 2*p, 2*p+1
			g.ins("VPSLLD $8, Z%d, Z8\n\tVPBLENDMB Z8, Z%d, K7, Z%d", y, x, 4+2*p)
			g.ins("VPSRLD $8, Z%d, Z9\n\tVPBLENDMB Z%d, Z9, K7, Z%d", x, y, 5+2*p)
		}
		g.ins("VPSRLD $16, Z4, Z10\n\tVPBLENDMW Z6, Z10, K6, Z10")
		g.ins("VPSLLD $16, Z7, Z11\n\tVPBLENDMW Z11, Z5, K6, Z11")
		g.ins("VPSLLD $16, Z6, Z12\n\tVPBLENDMW Z12, Z4, K6, Z12")
		for d := range 3 {
			g.ins("VPXORD Z%d, Z%d, Z%d\n\tVMOVDQU64 Z%d, %d(DI)", fxSign, 10+d, 10+d, 10+d, fixedPart*d+1024*h)
		}
	}
}

// turnTiles transposes pkRows tiles of 16 rows of 16 groups of four bytes.
func turnTiles(g *file) {
	packHead(g, "turnTiles512")
	g.label("tile")
	for r := range 16 {
		g.ins("VMOVUPS %d(SI), Z%d", 64*r, r)
	}
	turn16(g)
	for r := range 16 {
		g.ins("VMOVUPS Z%d, %d(DI)", r, 64*r)
	}
	g.ins("ADDQ $1024, SI\n\tADDQ $1024, DI\n\tDECQ CX\n\tJNZ tile")
	g.ins("VZEROUPPER\n\tRET")
}
