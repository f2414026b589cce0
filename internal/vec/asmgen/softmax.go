package main

// Softmax of the rows of a matrix and its gradient; the formulas stand in softmax.go of internal/vec. A row is read
// three times and so stays in the level-1 cache; one shorter than a vector stays in a register.

// softmaxes writes both. R8 counts the bytes of the whole vectors of a row and R9 those of the row; BX counts rows.
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
	a.Ins("TESTQ R8, R8")
	a.Ins("JNZ row")
	a.Label("short")
	a.Ins("XORQ AX, AX")
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
	a.Ins("ADDQ R9, DI")
	a.Ins("DECQ BX")
	a.Ins("JNZ short")
	a.Ins("JMP done")
	a.Label("row")
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
	a.Label("row")
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

// rows writes the head of a function (n, count int, slices... *float32, factor float32) over count rows of n elements.
func (a *assembler) rows(name string, slices []string, factor int) {
	a.ahead = 0
	types := "(n, count int"
	for _, s := range slices {
		types += ", " + s
	}
	at := 16 + 8*len(slices)
	a.head(name, types+" *float32, factor float32)", at+4)
	a.Ins("MOVQ n+0(FP), CX")
	a.Ins("MOVQ count+8(FP), BX")
	for i, s := range slices {
		a.Ins("MOVQ %s+%d(FP), %s", s, 16+8*i, pointers[i])
	}
	a.Ins("VBROADCASTSS factor+%d(FP), %s", at, a.v(factor))
	a.Ins("MOVQ CX, R8")
	a.Ins("MOVQ CX, R9")
	a.Ins("ANDQ $%d, CX", a.lanes-1) // elements of the partial vector
	a.Ins("SUBQ CX, R8")
	a.Ins("SHLQ $2, R8")
	a.Ins("SHLQ $2, R9")
	a.mask()
}

// vectors repeats a body for the vectors of a row, the partial one last.
func (a *assembler) vectors(name string, body func()) {
	a.Ins("XORQ AX, AX")
	a.Ins("CMPQ AX, R8")
	a.Ins("JGE %sTail", name)
	a.Label("%s", name)
	body()
	a.Ins("ADDQ $%d, AX", 4*a.lanes)
	a.Ins("CMPQ AX, R8")
	a.Ins("JLT %s", name)
	a.Label("%s", name+"Tail")
	a.Ins("TESTQ CX, CX")
	a.Ins("JZ %sEnd", name)
	a.partial = true
	body()
	a.partial = false
	a.Label("%s", name+"End")
}

// nextRow ends a function made by rows.
func (a *assembler) nextRow(slices ...string) {
	for _, s := range slices {
		a.Ins("ADDQ R9, %s", s)
	}
	a.Ins("DECQ BX")
	a.Ins("JNZ row")
	a.Label("done")
	a.Ins("VZEROUPPER")
	a.Ins("RET")
}

// lanesOr loads the partial vector into register 0, whose other lanes are those of a register.
func (a *assembler) lanesOr(other int, pointer string) {
	if a.masks {
		a.op("VMOVAPS", other, 0)
		a.Ins("VMOVUPS (%s)(AX*1), K1, Z0", pointer)
		return
	}
	a.Ins("VMASKMOVPS (%s)(AX*1), Y15, Y0", pointer)
	a.Ins("VBLENDVPS Y15, Y0, Y%d, Y0", other)
}

// keepLanes clears what is not of the partial vector.
func (a *assembler) keepLanes(reg int) {
	if a.masks {
		a.Ins("VMOVAPS.Z Z%d, K1, Z%d", reg, reg)
		return
	}
	a.op("VANDPS", 15, reg, reg)
}

// across combines all lanes of a register in each of them; register 0 may hold what is needed, 3 is scratch.
func (a *assembler) across(op string, reg int) {
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
