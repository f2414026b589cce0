package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Neon: the kernels are described in instructions of AVX, whose place the instructions of NEON of the same meaning
// take. It has vectors of four lanes and no masks: what is left behind the last whole vector is taken element by
// element, in lane 0 with zeros in the others, as a mask would leave them. Loops of a kernel move its pointers on,
// since an address has no room for an index and an offset.
//
// Kernels use vector registers up to 27 and none of these:
const (
	constantsNeon = "R19" // points to the constants
	scratchNeon   = "R20"
	leftNeon      = "R21" // counts elements
	scratchReg    = 30
	constantReg   = 31
)

// opsNeon are the instructions of AVX that NEON has: instructions with three operands have their last first here.
var opsNeon = map[string]string{"VADDPS": "FADD", "VSUBPS": "FSUB", "VMULPS": "FMUL", "VDIVPS": "FDIV",
	"VMAXPS": "FMAX", "VMINPS": "FMIN", "VANDPS": "AND", "VORPS": "ORR", "VXORPS": "EOR", "VPADDD": "ADD",
	"VPSUBD": "SUB", "VPMINUD": "UMIN", "VPMAXUD": "UMAX", "VPCMPEQD": "CMEQ", "VADDPD": "FADD.2D",
	"VCVTPS2DQ": "FCVTNS", "VCVTDQ2PS": "SCVTF", "VSQRTPS": "FSQRT", "VFMADD231PS": "FMLA", "VFNMADD231PS": "FMLS",
	"VFMADD231PD": "FMLA.2D"}

// opNeon writes the instruction of NEON in place of one of AVX.
func (a *assembler) opNeon(name string, operands []any) {
	var regs []int
	addend := name == "VFMADD213PS" || name == "VFNMADD213PS" // the first operand
	for _, o := range operands {
		switch o := o.(type) {
		case int:
			regs = append(regs, o)
		case word:
			reg := constantReg
			if addend {
				reg = scratchReg
			}
			a.set(o, reg)
			regs = append(regs, reg)
		}
	}
	last := regs[len(regs)-1]
	switch name {
	case "VMOVAPS":
		a.insNeon("ORR", last, regs[0], regs[0])
	case "VPSLLD":
		bits, err := strconv.Atoi(operands[0].(string)[1:])
		if err != nil {
			panic(err)
		}
		a.shiftLeft(last, regs[0], bits)
	case "VFMADD213PS", "VFNMADD213PS": // d = y·d + x, which NEON adds to x
		if regs[0] != scratchReg {
			a.insNeon("ORR", scratchReg, regs[0], regs[0])
		}
		a.insNeon(map[string]string{"VFMADD213PS": "FMLA", "VFNMADD213PS": "FMLS"}[name], scratchReg, regs[1], last)
		a.insNeon("ORR", last, scratchReg, scratchReg)
	case "VFMSUB231PS": // d = y·x - d
		a.insNeon("FNEG", last, last)
		a.insNeon("FMLA", last, regs[1], regs[0])
	case "VFMSUB213PS": // d = y·d - x
		a.insNeon("FNEG", scratchReg, regs[0])
		a.insNeon("FMLA", scratchReg, regs[1], last)
		a.insNeon("ORR", last, scratchReg, scratchReg)
	default:
		op, ok := opsNeon[name]
		if !ok {
			panic("asmgen: NEON has no " + name)
		}
		if len(regs) == 2 {
			a.insNeon(op, last, regs[0])
		} else {
			a.insNeon(op, last, regs[1], regs[0])
		}
	}
}

// polynomialNeon is polynomial with two registers in turn, into each of which a coefficient is loaded first.
func (a *assembler) polynomialNeon(x, t int, coefficients []float64) {
	sum, next := t, scratchReg
	if len(coefficients)%2 == 0 {
		sum, next = next, sum
	}
	a.set(lane(coefficients[0]), sum)
	for _, c := range coefficients[1:] {
		a.set(lane(c), next)
		a.insNeon("FMLA", next, sum, x)
		sum, next = next, sum
	}
}

// addressNeon puts pointer + AX into the scratch register.
func (a *assembler) addressNeon(pointer string) {
	a.ins("ADD %s, %s, %s", a.r("AX"), a.r(pointer), scratchNeon)
}

// memoryNeon loads or stores a vector, or the one element of a partial one. In the loop of a kernel the pointer moves;
// elsewhere AX is the index.
func (a *assembler) memoryNeon(store bool, pointer string, reg int) {
	at := fmt.Sprintf("%d(%s)", a.shift, a.r(pointer))
	switch {
	case a.moving != nil:
		a.moves(pointer)
	case a.partial:
		at = fmt.Sprintf("(%s)(%s)", a.r(pointer), a.r("AX"))
	case a.shift != 0:
		a.addressNeon(pointer)
		at = fmt.Sprintf("%d(%s)", a.shift, scratchNeon)
	default:
		base, err := strconv.Atoi(a.r(pointer)[1:])
		if err != nil {
			panic(err)
		}
		if store {
			a.storeIndexed(reg, base, 0)
		} else {
			a.loadIndexed(reg, base, 0)
		}
		return
	}
	move := "FMOVQ"
	if a.partial {
		move = "FMOVS"
	}
	if store {
		a.ins("%s F%d, %s", move, reg, at)
	} else {
		a.ins("%s %s, F%d", move, at, reg)
	}
}

// moves notes a pointer that the loop of a kernel moves on.
func (a *assembler) moves(pointer string) {
	if !slices.Contains(a.moving, pointer) {
		a.moving = append(a.moving, pointer)
	}
}

// turnNeon writes a body and moves the pointers that it loaded and stored by on by some bytes.
func (a *assembler) turnNeon(bytes int, body func()) {
	a.moving = []string{}
	body()
	for _, p := range a.moving {
		a.integer("ADD", bytes, p)
	}
	a.moving = nil
}

// elementsNeon repeats the body of a kernel for each of the CX elements left, of which there is one at least.
func (a *assembler) elementsNeon(body func()) {
	a.label("element")
	a.partial = true
	a.turnNeon(4, body)
	a.partial = false
	a.again("CX", "element")
}

// restNeon repeats a body for each of the CX elements that follow AX, of which there is one at least; CX stays.
func (a *assembler) restNeon(name string, body func()) {
	a.ins("MOVD %s, %s", a.r("CX"), leftNeon)
	a.label("%sElement", name)
	a.partial = true
	body()
	a.partial = false
	a.integer("ADD", 4, "AX")
	a.ins("SUBS $1, %s\n\tBNE %sElement", leftNeon, name)
}

// broadcastNeon is broadcast.
func (a *assembler) broadcastNeon(at string, reg int) {
	open := strings.Index(at, "(")
	if pointer := strings.Trim(at[open:], "()"); pointer != "FP" {
		at = at[:open] + "(" + a.r(pointer) + ")"
	}
	a.ins("FMOVS %s, F%d", at, constantReg)
	a.dup(reg, constantReg)
}
