package main

import "fmt"

// The instructions of general registers, which count, point and branch. Registers have the names of x86; general gives
// the names in arm64.

// general are the registers of arm64 in place of the registers of x86. R19 to R21 are scratch (neon.go).
var general = map[string]string{"AX": "R0", "CX": "R1", "BX": "R2", "DX": "R3", "DI": "R4", "SI": "R5", "R8": "R8",
	"R9": "R9", "R10": "R10", "R11": "R11", "R12": "R12", "R13": "R13", "R14": "R14", "R15": "R15"}

// r names a general register.
func (a *assembler) r(name string) string {
	if a.neon {
		return general[name]
	}
	return name
}

// argument loads an argument of the function.
func (a *assembler) argument(name string, at int, to string) {
	move := "MOVQ"
	if a.neon {
		move = "MOVD"
	}
	a.ins("%s %s+%d(FP), %s", move, name, at, a.r(to))
}

func (a *assembler) move(from, to string) {
	if a.neon {
		a.ins("MOVD %s, %s", a.r(from), a.r(to))
		return
	}
	a.ins("MOVQ %s, %s", from, to)
}

func (a *assembler) clear(reg string) {
	if a.neon {
		a.ins("MOVD ZR, %s", a.r(reg))
		return
	}
	a.ins("XORQ %s, %s", reg, reg)
}

// integer computes reg = reg op by with a number or a register; op is ADD, SUB, AND or SHL.
func (a *assembler) integer(op string, by any, reg string) {
	text := fmt.Sprint(by)
	if name, ok := by.(string); ok {
		text = a.r(name)
	} else {
		text = "$" + text
	}
	switch {
	case !a.neon:
		a.ins("%sQ %s, %s", op, text, reg)
	case op == "SHL":
		a.ins("LSL %s, %s", text, a.r(reg))
	default:
		a.ins("%s %s, %s", op, text, a.r(reg))
	}
}

// sum computes to = x + y·times; times is 1 or 2.
func (a *assembler) sum(x, y string, times int, to string) {
	switch {
	case !a.neon:
		a.ins("LEAQ (%s)(%s*%d), %s", x, y, times, to)
	case times == 2:
		a.ins("ADD %s<<1, %s, %s", a.r(y), a.r(x), a.r(to))
	default:
		a.ins("ADD %s, %s, %s", a.r(y), a.r(x), a.r(to))
	}
}

// branch goes to a label where reg is less (JLT) or not less (JGE) than a number or a register.
func (a *assembler) branch(reg, condition string, than any, label string) {
	text := fmt.Sprint(than)
	if name, ok := than.(string); ok {
		text = a.r(name)
	} else {
		text = "$" + text
	}
	if a.neon {
		a.ins("CMP %s, %s", text, a.r(reg))
		a.ins("B%s %s", condition[1:], label)
		return
	}
	a.ins("CMPQ %s, %s", reg, text)
	a.ins("%s %s", condition, label)
}

func (a *assembler) ifZero(reg, label string) {
	if a.neon {
		a.ins("CBZ %s, %s", a.r(reg), label)
		return
	}
	a.ins("TESTQ %s, %s", reg, reg)
	a.ins("JZ %s", label)
}

func (a *assembler) ifNotZero(reg, label string) {
	if a.neon {
		a.ins("CBNZ %s, %s", a.r(reg), label)
		return
	}
	a.ins("TESTQ %s, %s", reg, reg)
	a.ins("JNZ %s", label)
}

// again counts a register down and goes to a label while it is not zero.
func (a *assembler) again(reg, label string) {
	if a.neon {
		a.ins("SUBS $1, %s", a.r(reg))
		a.ins("BNE %s", label)
		return
	}
	a.ins("DECQ %s", reg)
	a.ins("JNZ %s", label)
}

func (a *assembler) jump(label string) {
	if a.neon {
		a.ins("B %s", label)
		return
	}
	a.ins("JMP %s", label)
}

// end returns from the function, with the float64 in lane 0 of register 0 if it has a result.
func (a *assembler) end(result bool, at int) {
	if a.neon {
		if result {
			a.ins("FMOVD F0, ret+%d(FP)", at)
		}
	} else {
		a.ins("VZEROUPPER")
		if result {
			a.ins("MOVSD X0, ret+%d(FP)", at)
		}
	}
	a.ins("RET")
}
