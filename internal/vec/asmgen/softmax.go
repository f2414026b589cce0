package main

import "fmt"

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
	a.line("TESTQ R8, R8")
	a.line("JNZ row")
	a.label("short")
	a.line("XORQ AX, AX")
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
	a.line("ADDQ R9, DI")
	a.line("DECQ BX")
	a.line("JNZ short")
	a.line("JMP done")
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

// rows writes the head of a function (n, count int, slices... *float32, factor float32) over count rows of n elements.
func (a *assembler) rows(name string, slices []string, factor int) {
	a.function, a.ahead = name+a.name, 0
	signature := "n, count int"
	for _, s := range slices {
		signature += ", " + s
	}
	signature += " *float32, factor float32"
	at := 16 + 8*len(slices)
	fmt.Fprintf(&a.decl, "\n//go:noescape\nfunc %s(%s)\n", a.function, signature)
	fmt.Fprintf(&a.code, "\n// func %s(%s)\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", a.function, signature, a.function, at+4)
	a.line("MOVQ n+0(FP), CX")
	a.line("MOVQ count+8(FP), BX")
	for i, s := range slices {
		a.line("MOVQ %s+%d(FP), %s", s, 16+8*i, pointers[i])
	}
	a.line("VBROADCASTSS factor+%d(FP), %s", at, a.v(factor))
	a.line("MOVQ CX, R8")
	a.line("MOVQ CX, R9")
	a.line("ANDQ $%d, CX", a.lanes-1) // elements of the partial vector
	a.line("SUBQ CX, R8")
	a.line("SHLQ $2, R8")
	a.line("SHLQ $2, R9")
	a.mask()
}

// vectors repeats a body for the vectors of a row, the partial one last.
func (a *assembler) vectors(name string, body func()) {
	a.line("XORQ AX, AX")
	a.line("CMPQ AX, R8")
	a.line("JGE %sTail", name)
	a.label(name)
	body()
	a.line("ADDQ $%d, AX", 4*a.lanes)
	a.line("CMPQ AX, R8")
	a.line("JLT %s", name)
	a.label(name + "Tail")
	a.line("TESTQ CX, CX")
	a.line("JZ %sEnd", name)
	a.partial = true
	body()
	a.partial = false
	a.label(name + "End")
}

// nextRow ends a function made by rows.
func (a *assembler) nextRow(slices ...string) {
	for _, s := range slices {
		a.line("ADDQ R9, %s", s)
	}
	a.line("DECQ BX")
	a.line("JNZ row")
	a.label("done")
	a.line("VZEROUPPER")
	a.line("RET")
}

// lanesOr loads the partial vector into register 0, whose other lanes are those of a register.
func (a *assembler) lanesOr(other int, pointer string) {
	if a.masks {
		a.op("VMOVAPS", other, 0)
		a.line("VMOVUPS (%s)(AX*1), K1, Z0", pointer)
		return
	}
	a.line("VMASKMOVPS (%s)(AX*1), Y15, Y0", pointer)
	a.line("VBLENDVPS Y15, Y0, Y%d, Y0", other)
}

// keepLanes clears what is not of the partial vector.
func (a *assembler) keepLanes(reg int) {
	if a.masks {
		a.line("VMOVAPS.Z Z%d, K1, Z%d", reg, reg)
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
