package main

import "fmt"

// Softmax of the rows of a matrix and its gradient; the formulas stand in softmax.go of internal/compute/vec. A row is
// read three times and so stays in the level-1 cache; one shorter than a vector stays in a register.

// softmaxes writes both. R8 counts the bytes of the whole vectors of a row and R9 the bytes of the row; BX counts rows.
func softmaxes(a *assembler) {
	const factor, lowest, top, sum = 6, 7, 8, 9
	a.rows("softmax", []string{"p"}, factor)
	limits(a)
	a.set(word(0xff800000), lowest) // -Inf
	power := func() {               // of register 0
		a.op("VSUBPS", top, 0, 0)
		a.op("VMULPS", factor, 0, 0)
		a.exp(0, 1, 2)
	}
	if !a.neon { // which takes elements one by one anyway
		a.shortRows(lowest, top, sum, power)
	}
	a.label("row")
	a.op("VMOVAPS", lowest, top)
	a.vectors("most", func() {
		if a.partial {
			a.lanesOr(lowest, "DI")
		} else {
			a.load("DI", 0)
		}
		a.op("VMAXPS", 0, top, top)
	})
	a.across("VMAXPS", top)
	a.zero(sum)
	a.vectors("powers", func() {
		a.load("DI", 0)
		power()
		if a.partial {
			a.keepLanes(0)
		}
		a.op("VADDPS", 0, sum, sum)
		a.store(0, "DI")
	})
	a.across("VADDPS", sum)
	a.set(lane(1), 0)
	a.op("VDIVPS", sum, 0, sum)
	a.vectors("shares", func() {
		a.load("DI", 0)
		a.op("VMULPS", sum, 0, 0)
		a.store(0, "DI")
	})
	a.nextRow("DI")

	a.rows("softmaxGrad", []string{"dp", "p"}, factor)
	a.label("row")
	a.zero(sum)
	a.vectors("mean", func() {
		a.load("DI", 0)
		a.load("SI", 1)
		a.op("VFMADD231PS", 0, 1, sum)
	})
	a.across("VADDPS", sum)
	a.vectors("slopes", func() {
		a.load("DI", 0)
		a.load("SI", 1)
		a.op("VSUBPS", sum, 0, 0)
		a.op("VMULPS", factor, 1, 1)
		a.op("VMULPS", 1, 0, 0)
		a.store(0, "DI")
	})
	a.nextRow("DI", "SI")
}

// shortRows does all of softmax for rows shorter than a vector.
func (a *assembler) shortRows(lowest, top, sum int, power func()) {
	a.ifNotZero("R8", "row")
	a.label("short")
	a.clear("AX")
	a.lanesOr(lowest, "DI")
	a.op("VMOVAPS", 0, top)
	a.across("VMAXPS", top)
	power()
	a.keepLanes(0)
	a.op("VMOVAPS", 0, sum)
	a.across("VADDPS", sum)
	a.op("VDIVPS", sum, 0, 0)
	a.partial = true
	a.store(0, "DI")
	a.partial = false
	a.integer("ADD", "R9", "DI")
	a.again("BX", "short")
	a.jump("done")
}

// rows writes the head of a function (n, count int, slices... *float32, factor float32) over count rows of n elements.
func (a *assembler) rows(name string, slices []string, factor int) {
	a.ahead = 0
	types := "(n, count int"
	for _, s := range slices {
		types += ", " + s
	}
	at := 16 + 8*len(slices)
	a.head(name, types+" *float32, factor float32)", at+4)
	a.argument("n", 0, "CX")
	a.argument("count", 8, "BX")
	for i, s := range slices {
		a.argument(s, 16+8*i, pointers[i])
	}
	a.broadcast(fmt.Sprintf("factor+%d(FP)", at), factor)
	a.move("CX", "R8")
	a.move("CX", "R9")
	a.integer("AND", a.lanes-1, "CX") // elements of the partial vector
	a.integer("SUB", "CX", "R8")
	a.integer("SHL", 2, "R8")
	a.integer("SHL", 2, "R9")
	a.mask()
}

// vectors repeats a body for the vectors of a row, the partial one last.
func (a *assembler) vectors(name string, body func()) {
	a.clear("AX")
	a.branch("AX", "JGE", "R8", name+"Tail")
	a.label("%s", name)
	body()
	a.integer("ADD", 4*a.lanes, "AX")
	a.branch("AX", "JLT", "R8", name)
	a.label("%s", name+"Tail")
	a.ifZero("CX", name+"End")
	a.rest(name, body)
	a.label("%s", name+"End")
}

// rest repeats a body for the partial vector of a row, at AX.
func (a *assembler) rest(name string, body func()) {
	if a.neon {
		a.restNeon(name, body)
		return
	}
	a.partial = true
	body()
	a.partial = false
}

// nextRow ends a function made by rows.
func (a *assembler) nextRow(slices ...string) {
	for _, s := range slices {
		a.integer("ADD", "R9", s)
	}
	a.again("BX", "row")
	a.label("done")
	a.end(false, 0)
}

// lanesOr loads the partial vector into register 0, whose other lanes are filled from a register.
func (a *assembler) lanesOr(other int, pointer string) {
	if a.neon {
		a.op("VMOVAPS", other, 0)
		a.addressNeon(pointer)
		a.ins("VLD1 (%s), V0.S[0]", scratchNeon)
		return
	}
	if a.masks {
		a.op("VMOVAPS", other, 0)
		a.ins("VMOVUPS (%s)(AX*1), K1, Z0", pointer)
		return
	}
	a.ins("VMASKMOVPS (%s)(AX*1), Y15, Y0", pointer)
	a.ins("VBLENDVPS Y15, Y0, Y%d, Y0", other)
}

// keepLanes clears what is not of the partial vector.
func (a *assembler) keepLanes(reg int) {
	if a.neon {
		a.ins("FMOVS F%d, F%[1]d", reg)
		return
	}
	if a.masks {
		a.ins("VMOVAPS.Z Z%d, K1, Z%d", reg, reg)
		return
	}
	a.op("VANDPS", 15, reg, reg)
}

// across combines all lanes of a register in each of them; register 0 may hold what is needed, 3 is scratch.
func (a *assembler) across(op string, reg int) {
	if a.neon {
		if op == "VADDPS" {
			a.lanesTotal(reg)
			return
		}
		a.insNeon("FMAXV", reg, reg)
		a.dup(reg, reg)
		return
	}
	if a.masks {
		for _, order := range []string{"$0x4E", "$0xB1"} {
			a.op("VSHUFF32X4", order, reg, reg, 3)
			a.op(op, 3, reg, reg)
		}
	} else {
		a.op("VPERM2F128", "$1", reg, reg, 3)
		a.op(op, 3, reg, reg)
	}
	for _, order := range []string{"$0x4E", "$0xB1"} {
		a.op("VPERMILPS", order, reg, 3)
		a.op(op, 3, reg, reg)
	}
}
