package main

import (
	"fmt"
	"strings"
)

// products writes dots and mix, the products of a row with a matrix whose rows are ld elements apart. Both have two
// loops, so they are written without kernel(). R9 is the distance of rows in bytes.
func products(a *assembler) {
	dots(a)
	mix(a)
	mixFour(a)
}

// begin writes the head of a function (n, count int, dst, x, rows *float32, ld, more... int): DI dst, SI x, DX rows, CX
// n, BX count, R9 ld, R13, R8 and R15 what is more, distances in bytes.
func (a *assembler) begin(name string, more ...string) {
	a.ahead = 0
	strides := append([]string{"ld"}, more...)
	types := fmt.Sprintf("(n, count int, dst, x, rows *float32, %s int)", strings.Join(strides, ", "))
	a.head(name, types, 40+8*len(strides))
	for _, arg := range []string{"n+0(FP), CX", "count+8(FP), BX", "dst+16(FP), DI", "x+24(FP), SI",
		"rows+32(FP), DX"} {
		a.Ins("MOVQ %s", arg)
	}
	for i, s := range strides {
		reg := []string{"R9", "R13", "R8", "R15"}[i]
		a.Ins("MOVQ %s+%d(FP), %s", s, 40+8*i, reg)
		a.Ins("SHLQ $2, %s", reg)
	}
}

// dots computes dst_j = Σ_k x_k·rows[j·ld + k] for j < count, k < n, four rows at a time: their sums are in registers
// 0-3, and R10, R11 and R12 point to rows 1-3.
func dots(a *assembler) {
	a.begin("dots")
	a.Ins("MOVQ CX, R8")
	a.Ins("ANDQ $%d, CX", a.lanes-1) // elements of the partial vector
	a.Ins("SUBQ CX, R8")
	a.Ins("SHLQ $2, R8") // bytes of whole vectors
	a.mask()
	rows := []string{"DX", "R10", "R11", "R12"}
	group := func(name string, count int) {
		a.Ins("CMPQ BX, $%d", count)
		a.Ins("JLT %sEnd", name)
		a.Label("%s", name)
		for i := 1; i < count; i++ {
			a.Ins("LEAQ (%s)(R9*1), %s", rows[i-1], rows[i])
		}
		for i := range count {
			a.zero(i)
		}
		add := func() {
			a.load("SI", 4)
			for i := range count {
				a.load(rows[i], 5)
				a.op("VFMADD231PS", 5, 4, i)
			}
		}
		a.Ins("XORQ AX, AX")
		a.Ins("CMPQ AX, R8")
		a.Ins("JGE %sTail", name)
		a.Label("%s", name+"Whole")
		add()
		a.Ins("ADDQ $%d, AX", 4*a.lanes)
		a.Ins("CMPQ AX, R8")
		a.Ins("JLT %sWhole", name)
		a.Label("%s", name+"Tail")
		a.Ins("TESTQ CX, CX")
		a.Ins("JZ %sSum", name)
		a.partial = true
		add()
		a.partial = false
		a.Label("%s", name+"Sum")
		for i := range count {
			if a.masks {
				a.Ins("VEXTRACTF64X4 $1, Z%d, Y5", i)
				a.Ins("VADDPS Y5, Y%d, Y%d", i, i)
			}
		}
		if count == 4 {
			a.Ins("VHADDPS Y1, Y0, Y0")
			a.Ins("VHADDPS Y3, Y2, Y2")
			a.Ins("VHADDPS Y2, Y0, Y0")
			a.Ins("VEXTRACTF128 $1, Y0, X1")
			a.Ins("VADDPS X1, X0, X0")
			a.Ins("VMOVUPS X0, (DI)")
		} else {
			a.Ins("VHADDPS Y0, Y0, Y0")
			a.Ins("VHADDPS Y0, Y0, Y0")
			a.Ins("VEXTRACTF128 $1, Y0, X1")
			a.Ins("VADDSS X1, X0, X0")
			a.Ins("VMOVSS X0, (DI)")
		}
		a.Ins("ADDQ $%d, DI", 4*count)
		a.Ins("LEAQ (%s)(R9*1), DX", rows[count-1])
		a.Ins("SUBQ $%d, BX", count)
		a.Ins("CMPQ BX, $%d", count)
		a.Ins("JGE %s", name)
		a.Label("%s", name+"End")
	}
	group("four", 4)
	group("single", 1)
	a.Ins("VZEROUPPER")
	a.Ins("RET")
}

// mix computes dst_k = Σ_j x[j·step]·rows[j·ld + k] for k < n, j < count; up to four vectors of dst at a time are in
// registers 0-3. CX counts the elements of dst that are left, R10 walks over the rows and R11 over x, R12 counts.
func mix(a *assembler) {
	a.begin("mix", "step")
	a.Ins("XORQ AX, AX") // byte offset in dst
	group := func(name string, vectors int, partial bool) {
		for i := range vectors {
			a.zero(i)
		}
		a.Ins("LEAQ (DX)(AX*1), R10")
		a.Ins("MOVQ SI, R11")
		a.Ins("MOVQ BX, R12")
		a.Ins("TESTQ R12, R12")
		a.Ins("JZ %sStore", name)
		a.Label("%s", name+"Row")
		a.Ins("VBROADCASTSS (R11), %s", a.v(4))
		a.partial = partial
		for i := range vectors {
			mem := fmt.Sprintf("%d(R10)", 4*a.lanes*i)
			switch {
			case !partial:
				a.Ins("VFMADD231PS %s, %s, %s", mem, a.v(4), a.v(i))
			case a.masks:
				a.Ins("VMOVUPS.Z %s, K1, %s", mem, a.v(5))
				a.op("VFMADD231PS", 5, 4, i)
			default:
				a.Ins("VMASKMOVPS %s, Y15, %s", mem, a.v(5))
				a.op("VFMADD231PS", 5, 4, i)
			}
		}
		a.Ins("ADDQ R9, R10")
		a.Ins("ADDQ R13, R11")
		a.Ins("DECQ R12")
		a.Ins("JNZ %sRow", name)
		a.Label("%s", name+"Store")
		for i := range vectors {
			a.shift = 4 * a.lanes * i
			a.store(i, "DI")
		}
		a.shift, a.partial = 0, false
	}
	for _, vectors := range []int{4, 1} {
		name := fmt.Sprintf("by%d", vectors)
		a.Ins("CMPQ CX, $%d", vectors*a.lanes)
		a.Ins("JLT %sEnd", name)
		a.Label("%s", name)
		group(name, vectors, false)
		a.Ins("ADDQ $%d, AX", 4*vectors*a.lanes)
		a.Ins("SUBQ $%d, CX", vectors*a.lanes)
		a.Ins("CMPQ CX, $%d", vectors*a.lanes)
		a.Ins("JGE %s", name)
		a.Label("%s", name+"End")
	}
	a.Ins("TESTQ CX, CX")
	a.Ins("JZ done")
	a.mask()
	group("rest", 1, true)
	a.Label("done")
	a.Ins("VZEROUPPER")
	a.Ins("RET")
}

// mixFour is mix for four rows of x and dst, row and out apart, and n a multiple of the columns it keeps in registers.
// R14 is the distance of the last row of x.
func mixFour(a *assembler) {
	const rows = 4
	vectors := a.mixVectors()
	sum := func(r, i int) int { return r*vectors + i }
	x, w := rows*vectors, rows*vectors+vectors
	a.begin("mixFour", "step", "row", "out")
	a.Ins("LEAQ (R8)(R8*2), R14")
	a.Ins("XORQ AX, AX")
	a.Label("columns")
	for i := range rows * vectors {
		a.zero(i)
	}
	a.Ins("LEAQ (DX)(AX*1), R10")
	a.Ins("MOVQ SI, R11")
	a.Ins("MOVQ BX, R12")
	a.Label("row")
	for i := range vectors {
		a.Ins("VMOVUPS %d(R10), %s", 4*a.lanes*i, a.v(x+i))
	}
	for r, at := range []string{"(R11)", "(R11)(R8*1)", "(R11)(R8*2)", "(R11)(R14*1)"} {
		a.Ins("VBROADCASTSS %s, %s", at, a.v(w))
		for i := range vectors {
			a.op("VFMADD231PS", x+i, w, sum(r, i))
		}
	}
	a.Ins("ADDQ R9, R10")
	a.Ins("ADDQ R13, R11")
	a.Ins("DECQ R12")
	a.Ins("JNZ row")
	a.Ins("LEAQ (DI)(AX*1), R10")
	for r := range rows {
		for i := range vectors {
			a.Ins("VMOVUPS %s, %d(R10)", a.v(sum(r, i)), 4*a.lanes*i)
		}
		if r < rows-1 {
			a.Ins("ADDQ R15, R10")
		}
	}
	a.Ins("ADDQ $%d, AX", 4*vectors*a.lanes)
	a.Ins("SUBQ $%d, CX", vectors*a.lanes)
	a.Ins("JG columns")
	a.Ins("VZEROUPPER")
	a.Ins("RET")
}
