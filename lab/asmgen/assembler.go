package main

import (
	"fmt"
	"math"
	"strings"
)

// isa is one instruction set. With masks (AVX-512) the last partial vector is loaded and stored under K1 and
// constants are broadcast by the instruction that uses them; without, under register 15, and constants are stored eight
// times. Neon (vecneon.go) takes what is left behind the last whole vector element by element.
type isa struct {
	name, reg, arch string
	lanes           int
	masks, neon     bool
}

// lower is the name in the names of files and of the table.
func (i isa) lower() string { return strings.ToLower(i.name) }

// assembler collects the text of one file.
type assembler struct {
	isa
	file
	kernels   []signature
	constants []uint32
	partial   bool // in the part of a kernel that handles the last vector
	shift     int  // byte offset of the vector in an unrolled loop
	ahead     int
	level     string
	moving    []string // Neon: the pointers that the loop of a kernel moves on
}

// signature is a kernel's name, and its parameters and result in Go.
type signature struct{ name, types string }

// head begins a function with args bytes of parameters and results.
func (a *assembler) head(name, types string, args int) {
	a.kernels = append(a.kernels, signature{name, types})
	a.text(name+a.name, types, 0, args)
	if a.neon {
		a.ins("MOVD $constants%s<>(SB), %s", a.name, constantsNeon)
	}
}

func (a *assembler) source() string {
	var s file
	copies := a.lanes
	if a.masks {
		copies = 1
	}
	for i, c := range a.constants {
		for k := range copies {
			s.data("constants"+a.name, 4*(i*copies+k), 4, fmt.Sprintf("0x%08x", c))
		}
	}
	s.globl("constants"+a.name, 4*copies*len(a.constants))
	if !a.masks && !a.neon { // eight ones and eight zeros: the mask of k lanes starts 4k bytes before the middle
		for i := range 16 {
			s.data("lanes"+a.name, 4*i, 4, fmt.Sprint(i/8-1))
		}
		s.globl("lanes"+a.name, 64)
	}
	return s.String() + a.String()
}

// v names a vector register.
func (a *assembler) v(n int) string { return fmt.Sprintf("%s%d", a.reg, n) }

// word is a constant operand: the bits of every lane.
type word uint32

// lane is a float32 constant.
func lane(x float64) word { return word(math.Float32bits(float32(x))) }

// op writes an instruction; operands are vector registers (int), constants (word, first only) or text.
func (a *assembler) op(name string, operands ...any) {
	if a.neon {
		a.opNeon(name, operands)
		return
	}
	text := make([]string, len(operands))
	for i, o := range operands {
		switch o := o.(type) {
		case int:
			text[i] = a.v(o)
		case word:
			if a.masks {
				name += ".BCST"
			}
			text[i] = a.constant(o)
		default:
			text[i] = fmt.Sprint(o)
		}
	}
	a.ins("%s %s", name, strings.Join(text, ", "))
}

func (a *assembler) constant(w word) string {
	at := -1
	for i, c := range a.constants {
		if c == uint32(w) {
			at = i
		}
	}
	if at < 0 {
		at = len(a.constants)
		a.constants = append(a.constants, uint32(w))
	}
	size := 4
	if !a.masks {
		size *= a.lanes
	}
	if a.neon {
		return fmt.Sprintf("%d(%s)", at*size, constantsNeon)
	}
	return fmt.Sprintf("constants%s<>+%d(SB)", a.name, at*size)
}

// set loads a constant into a register.
func (a *assembler) set(w word, reg int) {
	if a.neon {
		a.ins("FMOVQ %s, F%d", a.constant(w), reg)
		return
	}
	a.ins("VBROADCASTSS %s, %s", a.constant(w), a.v(reg))
}

// broadcast gives every lane of a register the value at an offset from a pointer, or from the stack (an argument).
func (a *assembler) broadcast(at string, reg int) {
	if a.neon {
		a.broadcastNeon(at, reg)
		return
	}
	a.ins("VBROADCASTSS %s, %s", at, a.v(reg))
}

func (a *assembler) zero(reg int) { a.op("VXORPS", reg, reg, reg) }

// pointers are the general registers that hold the slices of a kernel; AX is the byte offset, CX the count of
// elements left and R15 scratch.
var pointers = []string{"DI", "SI", "DX", "BX", "R8", "R9", "R10", "R11", "R12", "R13"}

func (a *assembler) load(pointer string, reg int) {
	mem := fmt.Sprintf("%d(%s)(AX*1)", a.shift, pointer)
	switch {
	case a.neon:
		a.memoryNeon(false, pointer, reg)
	case !a.partial:
		a.ins("VMOVUPS %s, %s", mem, a.v(reg))
		if a.ahead > 0 && (a.shift+a.ahead)%64 == 0 { // once per cache line
			a.ins("%s %d(%s)(AX*1)", a.level, a.shift+a.ahead, pointer)
		}
	case a.masks:
		a.ins("VMOVUPS.Z %s, K1, %s", mem, a.v(reg))
	default:
		a.ins("VMASKMOVPS %s, Y15, %s", mem, a.v(reg))
	}
}

func (a *assembler) store(reg int, pointer string) {
	mem := fmt.Sprintf("%d(%s)(AX*1)", a.shift, pointer)
	switch {
	case a.neon:
		a.memoryNeon(true, pointer, reg)
	case !a.partial:
		a.ins("VMOVUPS %s, %s", a.v(reg), mem)
	case a.masks:
		a.ins("VMOVUPS %s, K1, %s", a.v(reg), mem)
	default:
		a.ins("VMASKMOVPS %s, Y15, %s", a.v(reg), mem)
	}
}

// kernel describes one function of n elements: name(n int, slices... *float32, scalars... float32) result.
type kernel struct {
	name    string
	slices  []string
	scalars []string // arrive broadcast in registers first, first+1, ...
	first   int
	result  bool // returns a float64
	unroll  int  // vectors per turn of the main loop
	// bytes of each slice to prefetch ahead of its loads, for streams from memory
	ahead  int
	level  string                         // PREFETCHT0 or PREFETCHT1
	start  func(a *assembler)             // before the loops
	body   func(a *assembler, p []string) // one vector
	finish func(a *assembler)             // after the loops
}

func (a *assembler) kernel(k kernel) {
	frame := 8 + 8*len(k.slices) + 4*len(k.scalars)
	types := "n int, " + strings.Join(k.slices, ", ") + " *float32"
	if len(k.scalars) > 0 {
		types += ", " + strings.Join(k.scalars, ", ") + " float32"
	}
	result := ""
	if k.result {
		frame, result = (frame+7)/8*8+8, " float64"
	}
	a.head(k.name, "("+types+")"+result, frame)
	a.argument("n", 0, "CX")
	at, p := 8, pointers[:len(k.slices)]
	for i, s := range k.slices {
		a.argument(s, at, p[i])
		at += 8
	}
	for i, s := range k.scalars {
		a.broadcast(fmt.Sprintf("%s+%d(FP)", s, at), k.first+i)
		at += 4
	}
	if !a.neon {
		a.clear("AX")
	}
	if k.start != nil {
		k.start(a)
	}
	bytes := 4 * a.lanes
	a.ahead, a.level = k.ahead, k.level
	if k.unroll > 1 {
		a.loop("wide", k.unroll*a.lanes, func() {
			for a.shift = 0; a.shift < k.unroll*bytes; a.shift += bytes {
				k.body(a, p)
			}
			a.shift = 0
		})
	}
	a.loop("one", a.lanes, func() { k.body(a, p) })
	a.ifZero("CX", "done")
	if a.neon {
		a.elementsNeon(func() { k.body(a, p) })
	} else {
		a.mask()
		a.partial = true
		k.body(a, p)
		a.partial = false
	}
	a.label("done")
	if k.finish != nil {
		k.finish(a)
	}
	a.end(k.result, frame-8)
}

// loop repeats a body while at least count elements are left.
func (a *assembler) loop(name string, count int, body func()) {
	a.branch("CX", "JLT", count, name+"End")
	a.label("%s", name)
	if a.neon {
		a.turnNeon(4*count, body)
	} else {
		body()
		a.integer("ADD", 4*count, "AX")
	}
	a.integer("SUB", count, "CX")
	a.branch("CX", "JGE", count, name)
	a.label("%s", name+"End")
}

// mask prepares loads and stores of the last CX elements.
func (a *assembler) mask() {
	if a.neon {
		return
	}
	if a.masks {
		a.ins("MOVL $-1, R15")
		a.ins("SHLL CX, R15")
		a.ins("NOTL R15")
		a.ins("KMOVW R15, K1")
		return
	}
	a.ins("LEAQ lanes%s<>+32(SB), R15", a.name)
	a.ins("SHLQ $2, CX")
	a.ins("SUBQ CX, R15")
	a.ins("VMOVUPS (R15), Y15")
}
