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
	for i, arg := range [][2]string{{"n", "CX"}, {"count", "BX"}, {"dst", "DI"}, {"x", "SI"}, {"rows", "DX"}} {
		a.argument(arg[0], 8*i, arg[1])
	}
	for i, s := range strides {
		reg := []string{"R9", "R13", "R8", "R15"}[i]
		a.argument(s, 40+8*i, reg)
		a.integer("SHL", 2, reg)
	}
}

// dots computes dst_j = Σ_k x_k·rows[j·ld + k] for j < count, k < n, four rows at a time: their sums are in registers
// 0-3, and R10, R11 and R12 point to rows 1-3.
func dots(a *assembler) {
	a.begin("dots")
	a.move("CX", "R8")
	a.integer("AND", a.lanes-1, "CX") // elements of the partial vector
	a.integer("SUB", "CX", "R8")
	a.integer("SHL", 2, "R8") // bytes of whole vectors
	a.mask()
	rows := []string{"DX", "R10", "R11", "R12"}
	group := func(name string, count int) {
		a.branch("BX", "JLT", count, name+"End")
		a.label("%s", name)
		for i := 1; i < count; i++ {
			a.sum(rows[i-1], "R9", 1, rows[i])
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
		a.clear("AX")
		a.branch("AX", "JGE", "R8", name+"Tail")
		a.label("%s", name+"Whole")
		add()
		a.integer("ADD", 4*a.lanes, "AX")
		a.branch("AX", "JLT", "R8", name+"Whole")
		a.label("%s", name+"Tail")
		a.ifZero("CX", name+"Sum")
		a.rest(name, add)
		a.label("%s", name+"Sum")
		for i := range count {
			if a.masks {
				a.ins("VEXTRACTF64X4 $1, Z%d, Y5", i)
				a.ins("VADDPS Y5, Y%d, Y%d", i, i)
			}
		}
		if a.neon {
			a.dotsSumNeon(count)
		} else if count == 4 {
			a.ins("VHADDPS Y1, Y0, Y0")
			a.ins("VHADDPS Y3, Y2, Y2")
			a.ins("VHADDPS Y2, Y0, Y0")
			a.ins("VEXTRACTF128 $1, Y0, X1")
			a.ins("VADDPS X1, X0, X0")
			a.ins("VMOVUPS X0, (DI)")
		} else {
			a.ins("VHADDPS Y0, Y0, Y0")
			a.ins("VHADDPS Y0, Y0, Y0")
			a.ins("VEXTRACTF128 $1, Y0, X1")
			a.ins("VADDSS X1, X0, X0")
			a.ins("VMOVSS X0, (DI)")
		}
		a.integer("ADD", 4*count, "DI")
		a.sum(rows[count-1], "R9", 1, "DX")
		a.integer("SUB", count, "BX")
		a.branch("BX", "JGE", count, name)
		a.label("%s", name+"End")
	}
	group("four", 4)
	group("single", 1)
	a.end(false, 0)
}

// dotsSumNeon stores the sums of the lanes of the first registers, four or one.
func (a *assembler) dotsSumNeon(count int) {
	if count == 1 {
		a.lanesTotal(0)
		a.storeLane(0, "DI", 0)
		return
	}
	a.insNeon("FADDP", 0, 0, 1)
	a.insNeon("FADDP", 2, 2, 3)
	a.insNeon("FADDP", 0, 0, 2)
	a.vectorAt(true, "DI", 0, 0)
}

// vectorAt loads or stores a whole vector at an offset from a pointer.
func (a *assembler) vectorAt(store bool, pointer string, offset, reg int) {
	at, move, v := fmt.Sprintf("%d(%s)", offset, a.r(pointer)), "VMOVUPS", a.v(reg)
	if a.neon {
		move, v = "FMOVQ", fmt.Sprintf("F%d", reg)
	}
	if store {
		a.ins("%s %s, %s", move, v, at)
	} else {
		a.ins("%s %s, %s", move, at, v)
	}
}

// mix computes dst_k = Σ_j x[j·step]·rows[j·ld + k] for k < n, j < count; up to four vectors of dst at a time are in
// registers 0-3. CX counts the elements of dst that are left, R10 walks over the rows and R11 over x, R12 counts.
func mix(a *assembler) {
	a.begin("mix", "step")
	a.clear("AX") // byte offset in dst
	group := func(name string, vectors int, partial bool) {
		for i := range vectors {
			a.zero(i)
		}
		a.sum("DX", "AX", 1, "R10")
		a.move("SI", "R11")
		a.move("BX", "R12")
		a.ifZero("R12", name+"Store")
		a.label("%s", name+"Row")
		a.broadcast("(R11)", 4)
		a.partial = partial
		for i := range vectors {
			mem := fmt.Sprintf("%d(R10)", 4*a.lanes*i)
			switch {
			case a.neon:
				a.ins("%s %d(%s), F5", map[bool]string{false: "FMOVQ", true: "FMOVS"}[partial], 4*a.lanes*i, a.r("R10"))
				a.op("VFMADD231PS", 5, 4, i)
			case !partial:
				a.ins("VFMADD231PS %s, %s, %s", mem, a.v(4), a.v(i))
			case a.masks:
				a.ins("VMOVUPS.Z %s, K1, %s", mem, a.v(5))
				a.op("VFMADD231PS", 5, 4, i)
			default:
				a.ins("VMASKMOVPS %s, Y15, %s", mem, a.v(5))
				a.op("VFMADD231PS", 5, 4, i)
			}
		}
		a.integer("ADD", "R9", "R10")
		a.integer("ADD", "R13", "R11")
		a.again("R12", name+"Row")
		a.label("%s", name+"Store")
		for i := range vectors {
			a.shift = 4 * a.lanes * i
			a.store(i, "DI")
		}
		a.shift, a.partial = 0, false
	}
	for _, vectors := range []int{4, 1} {
		name := fmt.Sprintf("by%d", vectors)
		a.branch("CX", "JLT", vectors*a.lanes, name+"End")
		a.label("%s", name)
		group(name, vectors, false)
		a.integer("ADD", 4*vectors*a.lanes, "AX")
		a.integer("SUB", vectors*a.lanes, "CX")
		a.branch("CX", "JGE", vectors*a.lanes, name)
		a.label("%s", name+"End")
	}
	a.ifZero("CX", "done")
	a.mask()
	if a.neon {
		a.restNeon("columns", func() { group("rest", 1, true) })
	} else {
		group("rest", 1, true)
	}
	a.label("done")
	a.end(false, 0)
}

// mixFour is mix for four rows of x and dst, row and out apart, and n a multiple of the columns it keeps in registers.
// R14 is the distance of the last row of x.
func mixFour(a *assembler) {
	const rows = 4
	vectors := a.mixVectors()
	sum := func(r, i int) int { return r*vectors + i }
	x, w := rows*vectors, rows*vectors+vectors
	a.begin("mixFour", "step", "row", "out")
	a.sum("R8", "R8", 2, "R14")
	a.clear("AX")
	a.label("columns")
	for i := range rows * vectors {
		a.zero(i)
	}
	a.sum("DX", "AX", 1, "R10")
	a.move("SI", "R11")
	a.move("BX", "R12")
	a.label("row")
	for i := range vectors {
		a.vectorAt(false, "R10", 4*a.lanes*i, x+i)
	}
	for r, at := range []string{"(R11)", "(R11)(R8*1)", "(R11)(R8*2)", "(R11)(R14*1)"} {
		if a.neon && r > 0 {
			a.ins("ADD %s, R11, %s", []string{"R8", "R8<<1", "R14"}[r-1], scratchNeon)
			a.ins("VLD1R (%s), [V%d.S4]", scratchNeon, w)
		} else {
			a.broadcast(at, w)
		}
		for i := range vectors {
			a.op("VFMADD231PS", x+i, w, sum(r, i))
		}
	}
	a.integer("ADD", "R9", "R10")
	a.integer("ADD", "R13", "R11")
	a.again("R12", "row")
	a.sum("DI", "AX", 1, "R10")
	for r := range rows {
		for i := range vectors {
			a.vectorAt(true, "R10", 4*a.lanes*i, sum(r, i))
		}
		if r < rows-1 {
			a.integer("ADD", "R15", "R10")
		}
	}
	a.integer("ADD", 4*vectors*a.lanes, "AX")
	if a.neon {
		a.ins("SUBS $%d, R1\n\tBGT columns", vectors*a.lanes)
	} else {
		a.ins("SUBQ $%d, CX", vectors*a.lanes)
		a.ins("JG columns")
	}
	a.end(false, 0)
}
