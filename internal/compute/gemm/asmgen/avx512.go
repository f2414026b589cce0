package main

import "fmt"

const rows512 = 14 // most rows of a panel: 28 accumulators, 4 registers left for operands

// tiles512 writes the float32 and the bf16 tile kernels of AVX-512:
//
//	C[m, n] = alpha * sum_k a[k, m] * b[k, n] + beta * C + bias[n],   m <= 14, n <= 32
//
// a is a panel of m floats (or bf16 pairs) per k, b one of 32. Accumulators of row r are Z(4+2r), Z(5+2r).
// tileWidenAVX512 multiplies floats of a with bf16 pairs of b, which it widens: a step is two values of k.
// tileInt16VNNI multiplies pairs of int16 and sums them in int32.
func tiles512() string {
	g := newGen()
	tile512(g, "tileAVX512", variant{})
	tile512(g, "tileBF16AVX512", variant{bf16: true})
	tile512(g, "tileRowsAVX512", variant{rows: true})
	tile512(g, "tileWidenAVX512", variant{widen: true})
	tile512(g, "tileInt16VNNI", variant{ints: true})
	return g.String()
}

// variant is a kind of tile kernel: values are bf16 pairs; a is not packed but stored by rows; only b has bf16 pairs;
// values are pairs of int16.
type variant struct{ bf16, rows, widen, ints bool }

// values is how many floats of a row of a a step takes.
func (v variant) values() int {
	if v.widen {
		return 2
	}
	return 1
}

func tile512(g *gen, name string, v variant) {
	g.Raw("\n// func " + name + "(t *tile)")
	g.text(name, 0)
	g.Ins("MOVQ t+0(FP), AX")
	g.Ins("MOVQ %d(AX), SI", offA)
	g.Ins("MOVQ %d(AX), DI", offB)
	g.Ins("MOVQ %d(AX), DX", offC)
	g.Ins("MOVQ %d(AX), CX", offK)
	g.Ins("MOVQ %d(AX), R8", offLDC)
	g.Ins("SHLQ $2, R8")
	g.Ins("MOVQ %d(AX), R9", offM)
	g.Ins("MOVQ %d(AX), R10", offN)
	g.Ins("MOVQ %d(AX), R12", offPF)
	if v.rows {
		g.Ins("MOVQ %d(AX), R13", offLDA)
		g.Ins("LEAQ (R13)(R13*2), R14")
	}
	if v.widen {
		g.Ins("MOVL $0xaaaaaaaa, R11\n\tKMOVD R11, K3")
	}
	g.Ins("MOVL $-1, R11")
	g.Ins("BZHIL R10, R11, R11")
	g.Ins("KMOVW R11, K1")
	g.Ins("SHRL $16, R11")
	g.Ins("KMOVW R11, K2")
	g.Ins("MOVQ DX, BX")
	g.Ins("CMPQ R10, $16")
	g.Ins("JLE narrow")
	dispatch(g, "wide")
	g.Label("narrow")
	dispatch(g, "narrow")
	for m := rows512; m >= 1; m-- {
		body512(g, fmt.Sprintf("wide%d", m), m, 2, v)
		g.Ins("JMP storewide")
	}
	for m := rows512; m >= 1; m-- {
		body512(g, fmt.Sprintf("narrow%d", m), m, 1, v)
		g.Ins("JMP storenarrow")
	}
	store512(g, "storewide", 2, v)
	store512(g, "storenarrow", 1, v)
}

func dispatch(g *gen, prefix string) {
	for m := rows512; m > 1; m-- {
		g.Ins("CMPQ R9, $%d", m)
		g.Ins("JEQ %s%d", prefix, m)
	}
	g.Ins("JMP %s1", prefix)
}

// body512 accumulates m rows by nv vectors over CX steps.
func body512(g *gen, label string, m, nv int, kind variant) {
	g.Label("%s", label)
	for r := range m {
		for v := range nv {
			acc := 4 + 2*r + v
			g.Ins("VPXORQ Z%d, Z%d, Z%d", acc, acc, acc)
		}
		g.Ins("PREFETCHT0 (BX)")
		if nv == 2 {
			g.Ins("PREFETCHT0 64(BX)")
		}
		if r < m-1 {
			g.Ins("ADDQ R8, BX")
		}
	}
	if kind.rows && m > 5 { // BX is row 5, R15 row 10
		g.Ins("LEAQ (SI)(R13*4), BX\n\tADDQ R13, BX")
		g.Ins("LEAQ (BX)(R13*4), R15\n\tADDQ R13, R15")
	}
	unroll := 4
	if m*nv < 8 || kind.widen {
		unroll = 2
	}
	if unroll == 4 {
		g.Ins("MOVQ CX, R10\n\tSHRQ $2, R10")
	} else {
		g.Ins("MOVQ CX, R10\n\tSHRQ $1, R10")
	}
	g.Ins("JZ %stail", label)
	g.Ins("PCALIGN $32")
	g.Label("%sloop", label)
	for u := range unroll {
		step512(g, u, m, nv, kind)
	}
	g.Ins("ADDQ $%d, DI", unroll*128)
	g.Ins("ADDQ $%d, R12", unroll*64)
	next512(g, unroll, m, kind)
	g.Ins("DECQ R10\n\tJNZ %sloop", label)
	g.Label("%stail", label)
	g.Ins("ANDQ $%d, CX\n\tJZ %sdone", unroll-1, label)
	g.Label("%sone", label)
	step512(g, 0, m, nv, kind)
	g.Ins("ADDQ $128, DI")
	next512(g, 1, m, kind)
	g.Ins("DECQ CX\n\tJNZ %sone", label)
	g.Label("%sdone", label)
}

// next512 moves a on by some steps.
func next512(g *gen, steps, m int, kind variant) {
	if !kind.rows {
		g.Ins("ADDQ $%d, SI", steps*4*m*kind.values())
		return
	}
	g.Ins("ADDQ $%d, SI", steps*4)
	if m > 5 {
		g.Ins("ADDQ $%d, BX\n\tADDQ $%d, R15", steps*4, steps*4)
	}
}

// left512 is the address of value i of row r in step u.
func left512(u, i, r, m int, kind variant) string {
	if !kind.rows {
		return fmt.Sprintf("%d(SI)", ((u*kind.values()+i)*m+r)*4)
	}
	base := [...]string{"SI", "BX", "R15"}[r/5]
	return fmt.Sprintf("%d(%s)", u*4, base) + [...]string{"", "(R13*1)", "(R13*2)", "(R14*1)", "(R13*4)"}[r%5]
}

func step512(g *gen, u, m, nv int, kind variant) {
	for i := range kind.values() {
		for v := range nv {
			at := fmt.Sprintf("%d(DI)", u*128+64*v)
			switch {
			case !kind.widen:
				g.Ins("VMOVUPS %s, Z%d", at, v)
			case i == 0: // the lower halves are the values of an even k
				g.Ins("VPSLLD $16, %s, Z%d", at, v)
			default:
				g.Ins("VMOVDQU16.Z %s, K3, Z%d", at, v)
			}
		}
		if i == 0 {
			g.Ins("PREFETCHT1 %d(R12)", u*64)
			g.Ins("PREFETCHT0 %d(DI)", u*128+512)
			if nv == 2 {
				g.Ins("PREFETCHT0 %d(DI)", u*128+576)
			}
		}
		for r := range m {
			t := 2 + r&1
			g.Ins("VBROADCASTSS %s, Z%d", left512(u, i, r, m, kind), t)
			for v := range nv {
				switch {
				case kind.bf16:
					g.dpbf16(4+2*r+v, v, t)
				case kind.ints:
					g.Ins("VPDPWSSD Z%d, Z%d, Z%d", v, t, 4+2*r+v)
				default:
					g.Ins("VFMADD231PS Z%d, Z%d, Z%d", v, t, 4+2*r+v)
				}
			}
		}
	}
}

// store512 scales the accumulators and writes them, row by row until R9 rows are done.
func store512(g *gen, label string, nv int, kind variant) {
	g.Label("%s", label)
	g.Ins("VBROADCASTSS %d(AX), Z0", offAlpha)
	g.Ins("VBROADCASTSS %d(AX), Z1", offBeta)
	g.Ins("MOVL %d(AX), R11", offBeta)
	g.Ins("MOVQ %d(AX), BX", offBias)
	g.Ins("VPXORQ Z2, Z2, Z2\n\tVPXORQ Z3, Z3, Z3")
	g.Ins("TESTQ BX, BX\n\tJZ %snobias", label)
	g.Ins("VMOVUPS.Z (BX), K1, Z2")
	if nv == 2 {
		g.Ins("VMOVUPS.Z 64(BX), K2, Z3")
	}
	g.Label("%snobias", label)
	g.Ins("TESTL R11, R11\n\tJNZ %sbeta", label)
	for _, beta := range []bool{false, true} {
		if beta {
			g.Label("%sbeta", label)
		}
		for r := range rows512 {
			for v := range nv {
				acc := 4 + 2*r + v
				if kind.ints {
					g.Ins("VCVTDQ2PS Z%d, Z%d", acc, acc)
				}
				g.Ins("VFMADD213PS Z%d, Z0, Z%d", 2+v, acc)
				if beta {
					g.Ins("VFMADD231PS %d(DX), Z1, K%d, Z%d", 64*v, 1+v, acc)
				}
				g.Ins("VMOVUPS Z%d, K%d, %d(DX)", acc, 1+v, 64*v)
			}
			if r < rows512-1 {
				g.Ins("DECQ R9\n\tJZ %sdone%v", label, beta)
				g.Ins("ADDQ R8, DX")
			}
		}
		g.Label("%sdone%v", label, beta)
		g.Ins("VZEROUPPER\n\tRET")
	}
}
