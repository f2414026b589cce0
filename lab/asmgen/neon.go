package main

import "fmt"

// neon are instructions of arm64 by name: their machine code with all registers 0, and how ARM's assemblers write them.
// Go's assembler knows few of them, and those with other names. The first register is the result; instructions with
// three registers are written d, n, m.
var neon = map[string]struct {
	code uint32
	text string
}{
	"ADD":      {0x4ea08400, "add v%d.4s, v%d.4s, v%d.4s"},
	"SUB":      {0x6ea08400, "sub v%d.4s, v%d.4s, v%d.4s"},
	"UMIN":     {0x6ea06c00, "umin v%d.4s, v%d.4s, v%d.4s"},
	"UMAX":     {0x6ea06400, "umax v%d.4s, v%d.4s, v%d.4s"},
	"CMEQ":     {0x6ea08c00, "cmeq v%d.4s, v%d.4s, v%d.4s"},
	"AND":      {0x4e201c00, "and v%d.16b, v%d.16b, v%d.16b"},
	"ORR":      {0x4ea01c00, "orr v%d.16b, v%d.16b, v%d.16b"},
	"EOR":      {0x6e201c00, "eor v%d.16b, v%d.16b, v%d.16b"},
	"BSL":      {0x6e601c00, "bsl v%d.16b, v%d.16b, v%d.16b"},
	"FADD":     {0x4e20d400, "fadd v%d.4s, v%d.4s, v%d.4s"},
	"FSUB":     {0x4ea0d400, "fsub v%d.4s, v%d.4s, v%d.4s"},
	"FMUL":     {0x6e20dc00, "fmul v%d.4s, v%d.4s, v%d.4s"},
	"FDIV":     {0x6e20fc00, "fdiv v%d.4s, v%d.4s, v%d.4s"},
	"FMAX":     {0x4e20f400, "fmax v%d.4s, v%d.4s, v%d.4s"},
	"FMIN":     {0x4ea0f400, "fmin v%d.4s, v%d.4s, v%d.4s"},
	"FMLA":     {0x4e20cc00, "fmla v%d.4s, v%d.4s, v%d.4s"},
	"FMLS":     {0x4ea0cc00, "fmls v%d.4s, v%d.4s, v%d.4s"},
	"FCMGT":    {0x6ea0e400, "fcmgt v%d.4s, v%d.4s, v%d.4s"},
	"FADDP":    {0x6e20d400, "faddp v%d.4s, v%d.4s, v%d.4s"},
	"FADD.2D":  {0x4e60d400, "fadd v%d.2d, v%d.2d, v%d.2d"},
	"FMLA.2D":  {0x4e60cc00, "fmla v%d.2d, v%d.2d, v%d.2d"},
	"ZIP1":     {0x4e803800, "zip1 v%d.4s, v%d.4s, v%d.4s"},
	"ZIP2":     {0x4e807800, "zip2 v%d.4s, v%d.4s, v%d.4s"},
	"ZIP1.2D":  {0x4ec03800, "zip1 v%d.2d, v%d.2d, v%d.2d"},
	"ZIP2.2D":  {0x4ec07800, "zip2 v%d.2d, v%d.2d, v%d.2d"},
	"BFMMLA":   {0x6e40ec00, "bfmmla v%d.4s, v%d.8h, v%d.8h"},
	"FNEG":     {0x6ea0f800, "fneg v%d.4s, v%d.4s"},
	"FSQRT":    {0x6ea1f800, "fsqrt v%d.4s, v%d.4s"},
	"FCVTNS":   {0x4e21a800, "fcvtns v%d.4s, v%d.4s"},
	"SCVTF":    {0x4e21d800, "scvtf v%d.4s, v%d.4s"},
	"FCVTL":    {0x0e617800, "fcvtl v%d.2d, v%d.2s"},
	"FCVTL2":   {0x4e617800, "fcvtl2 v%d.2d, v%d.4s"},
	"BFCVTN":   {0x0ea16800, "bfcvtn v%d.4h, v%d.4s"},
	"BFCVTN2":  {0x4ea16800, "bfcvtn2 v%d.8h, v%d.4s"},
	"FMAXV":    {0x6e30f800, "fmaxv s%d, v%d.4s"},
	"UMAXV":    {0x6eb0a800, "umaxv s%d, v%d.4s"},
	"FADDP.2D": {0x7e70d800, "faddp d%d, v%d.2d"},
}

// insNeon writes an instruction of two or three vector registers.
func (f *file) insNeon(name string, registers ...int) {
	i, ok := neon[name]
	if !ok {
		panic("asmgen: no instruction " + name)
	}
	code, args := i.code, make([]any, len(registers))
	for k, r := range registers {
		code |= uint32(r) << []int{0, 5, 16}[k]
		args[k] = r
	}
	f.word(code, i.text, args...)
}

// fmlaElement writes d += n·m[element] of four float32.
func (f *file) fmlaElement(d, n, m, element int) {
	e := uint32(element)
	f.word(0x4f801000|e&1<<21|e>>1<<11|uint32(m)<<16|uint32(n)<<5|uint32(d), "fmla v%d.4s, v%d.4s, v%d.s[%d]", d, n, m,
		element)
}

// dup writes d = n[0] in all four lanes.
func (f *file) dup(d, n int) {
	f.word(0x4e040400|uint32(n)<<5|uint32(d), "dup v%d.4s, v%d.s[0]", d, n)
}

// shiftLeft writes d = n << bits of four integers.
func (f *file) shiftLeft(d, n, bits int) {
	f.word(0x4f205400|uint32(bits)<<16|uint32(n)<<5|uint32(d), "shl v%d.4s, v%d.4s, #%d", d, n, bits)
}

// loadIndexed loads the 16 bytes at R(base) + R(index) into V(d).
func (f *file) loadIndexed(d, base, index int) {
	f.word(0x3ce06800|uint32(index)<<16|uint32(base)<<5|uint32(d), "ldr q%d, [x%d, x%d]", d, base, index)
}

// storeIndexed is the opposite of loadIndexed.
func (f *file) storeIndexed(d, base, index int) {
	f.word(0x3ca06800|uint32(index)<<16|uint32(base)<<5|uint32(d), "str q%d, [x%d, x%d]", d, base, index)
}

// word writes machine code of four bytes with its meaning as a comment, which a test gives to an assembler.
func (f *file) word(code uint32, text string, args ...any) {
	f.ins("WORD $%#08x // %s", code, fmt.Sprintf(text, args...))
}
