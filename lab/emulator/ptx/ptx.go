// Package ptx turns the PTX of the kernels into C++ for the emulated driver, one function for each kernel and one
// statement for each instruction. The source emulator shows what the CUDA sources do; this shows what a GPU is given.
// What the translation does not know, an instruction or a modifier, is an error and no guess.
//
// src/ptx.h holds the arithmetic, which follows NVIDIA, "Parallel Thread Execution ISA",
// https://docs.nvidia.com/cuda/parallel-thread-execution: IEEE rounding, subnormal numbers kept, one NaN.
// src/compare.cc runs every kernel in the source emulator too and compares the bits.
//
// What it cannot find: mistakes of NVIDIA's assembler, the memory model of a GPU between blocks, anything about speed.
package ptx

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// shapes are what an instruction reads, without its type: t is its type, u 32 bits, p a predicate. An instruction that
// is missing here, such as approximate arithmetic, has results that depend on the GPU, or no kernel has it.
var shapes = map[string]string{
	"add": "tt", "sub": "tt", "mul": "tt", "add.rn": "tt", "sub.rn": "tt", "mul.rn": "tt",
	"mul.lo": "tt", "mul.hi": "tt", "mul.wide": "tt", "mad.lo": "ttt",
	"fma.rn": "ttt", "div": "tt", "div.rn": "tt", "rem": "tt", "rcp.rn": "t", "sqrt.rn": "t", "neg": "t",
	"min": "tt", "max": "tt", "and": "tt", "or": "tt", "xor": "tt", "not": "t", "shl": "tu", "shr": "tu", "bfe": "tuu",
	"selp": "ttp", "mov": "t", "cvta.to.global": "t", "cvta.global": "t",
	"setp.eq": "tt", "setp.ne": "tt", "setp.lt": "tt", "setp.le": "tt", "setp.gt": "tt", "setp.ge": "tt",
	"setp.equ": "tt", "setp.neu": "tt", "setp.ltu": "tt", "setp.leu": "tt", "setp.gtu": "tt", "setp.geu": "tt",
	"setp.num": "tt", "setp.nan": "tt",
}

// conversions are the modifiers of cvt, with the kinds of numbers from and to which they lead.
var conversions = map[string]bool{"cvt i i": true, "cvt f f": true, "cvt.rn f f": true, "cvt.rn i f": true,
	"cvt.rzi f i": true}

// special are the registers that say where a thread is.
var special = map[string]string{
	"%tid.x": "emu::now.thread.x", "%ntid.x": "emu::now.block_dim.x",
	"%ctaid.x": "emu::now.block.x", "%ctaid.y": "emu::now.block.y", "%ctaid.z": "emu::now.block.z",
	"%nctaid.x": "emu::now.grid_dim.x", "%nctaid.y": "emu::now.grid_dim.y", "%nctaid.z": "emu::now.grid_dim.z",
}

var (
	typeName = regexp.MustCompile(`^([usbf])(8|16|32|64)$`)
	address  = regexp.MustCompile(`^\[([\w%]+?)(?:\+(-?\d+))?\]$`)
	paramArg = regexp.MustCompile(`^\[(\w+)_param_(\d+)\]$`)
	memory   = regexp.MustCompile(`^(ld|st)\.(global|shared)(?:\.v([24]))?\.(\w+)$`)
	number   = regexp.MustCompile(`^-?(0x[0-9a-fA-F]+|\d+)$`)
	bitsOf   = regexp.MustCompile(`^0([fd])([0-9A-F]+)$`)
	register = regexp.MustCompile(`^%[a-z]+\d+$`)
)

// Translate writes the kernels of a file as C++; name is that of the file.
func Translate(w io.Writer, name, text string) error {
	m, err := parse(name, text)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "// Of %s.\n#include \"ptx.h\"\nusing namespace ptx;\nnamespace {\n", name)
	for _, s := range m.shared {
		s.declare(w)
	}
	for _, k := range m.kernels {
		if err := k.write(w, name); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(w, "}")
	return err
}

// declare places a variable at an odd multiple of its alignment: code that needs more than the PTX promises fails.
func (s shared) declare(w io.Writer) {
	fmt.Fprintf(w, "__attribute__((section(\"vse_shared\"), aligned(%d))) struct { char before[%d], at[%d]; } in_%s;\n"+
		"char (&%[4]s)[%[3]d] = in_%[4]s.at;\n", 2*s.align, s.align, s.bytes, s.name)
}

// write is one function, and what makes it known to the driver by the name of the kernel.
func (k *kernel) write(w io.Writer, file string) error {
	for _, s := range k.shared {
		s.declare(w)
	}
	fmt.Fprintf(w, "void kernel_%s(void** P) {\n", k.name)
	for _, r := range k.registers {
		class, name, _ := strings.Cut(r, " ")
		fmt.Fprintf(w, "  %s %s = unwritten<%s>(); (void)%s;\n", class, name, class, name)
	}
	fmt.Fprintf(w, "  (void)P;\n  at_most(%d);\n", k.threads)
	for _, s := range k.code {
		if s.label != "" {
			fmt.Fprintf(w, "%s:;\n", s.label)
			continue
		}
		c, err := k.instruction(s)
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, s.line, err)
		}
		if s.predicate != "" {
			c = fmt.Sprintf("if (%s) { %s }", strings.ReplaceAll(s.predicate, "%", ""), c)
		}
		fmt.Fprintf(w, "  %s\n", c)
	}
	fmt.Fprintf(w, "}\nconst int sizes_%s[] = {", k.name)
	for _, n := range k.parameters {
		fmt.Fprintf(w, "%d, ", n)
	}
	_, err := fmt.Fprintf(w, "0};\nconst Known known_%[1]s({\"%[1]s\", kernel_%[1]s, %[2]d, sizes_%[1]s});\n", k.name,
		len(k.parameters))
	return err
}

// typeOf is a type of PTX in C++.
func typeOf(t string) (string, error) {
	f := typeName.FindStringSubmatch(t)
	switch {
	case t == "pred":
		return "bool", nil
	case t == "f32":
		return "float", nil
	case t == "f64":
		return "double", nil
	case f == nil || f[1] == "f":
		return "", fmt.Errorf("type %q is unknown to the translation", t)
	case f[1] == "s":
		return "int" + f[2] + "_t", nil
	}
	return "uint" + f[2] + "_t", nil
}

// instruction is a statement in C++.
func (k *kernel) instruction(s statement) (string, error) {
	unknown := fmt.Errorf("instruction %s %s is unknown to the translation", s.op, strings.Join(s.args, ", "))
	op, last := s.op, ""
	if i := strings.LastIndexByte(s.op, '.'); i >= 0 {
		op, last = s.op[:i], s.op[i+1:]
	}
	n := len(s.args)
	switch {
	case s.op == "ret" && n == 0:
		return "return;", nil
	case (s.op == "bra" || s.op == "bra.uni") && n == 1:
		return "goto " + strings.TrimPrefix(s.args[0], "$") + ";", nil
	case s.op == "bar.sync" && n == 1 && s.args[0] == "0":
		return "emu::barrier(0);", nil // a compiler may write one barrier of the source twice: they have no lines
	case s.op == "shfl.sync.bfly.b32" && n == 5 && s.args[3] == "31":
		return k.call("set(%s, (uint32_t)emu::shuffle(as<uint32_t>(%s), as<uint32_t>(%s), emu::kXor, "+
			"as<uint32_t>(%s)));",
			s.args[0], s.args[4], s.args[1], s.args[2])
	case s.op == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32" && n == 4:
		return k.multiply("emu::mma", s, unknown)
	case s.op == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" && n == 4:
		return k.multiply("emu::mma_tf32", s, unknown)
	case s.op == "prefetch.L2" && n == 1:
		return ";", nil // it changes no value
	case s.op == "cvt.rna.tf32.f32" && n == 2:
		return k.call("set(%s, emu::tf32(as<float>(%s)));", s.args...)
	case s.op == "cvt.rn.bf16x2.f32" && n == 3:
		return k.call("set(%s, emu::bf16x2(as<float>(%s), as<float>(%s)));", s.args...)
	case s.op == "red.release.gpu.global.add.u32" && n == 2:
		return k.counter("emu::add_release((uint32_t*)as<uint64_t>(%s), as<uint32_t>(%s));", s.line, s.args[0],
			s.args[1])
	case s.op == "ld.acquire.gpu.global.u32" && n == 2:
		return k.counter("{ uint32_t* at = (uint32_t*)as<uint64_t>(%s); set(%s, emu::load_acquire(at)); }", s.line,
			s.args[1], s.args[0])
	case s.op == "split":
		return k.split(s)
	case s.op == "mov.b64" && n == 2 && strings.HasPrefix(s.args[1], "{"):
		if parts := operands(strings.Trim(s.args[1], "{}")); len(parts) == 2 {
			return k.call("set(%s, (uint64_t)as<uint32_t>(%s) | (uint64_t)as<uint32_t>(%s) << 32);", s.args[0],
				parts[0], parts[1])
		}
		return "", unknown
	case op == "ld.param" && n == 2:
		f := paramArg.FindStringSubmatch(s.args[1])
		t, err := typeOf(last)
		if f == nil || f[1] != k.name || err != nil || atoi(f[2]) >= len(k.parameters) {
			return "", unknown
		}
		return k.call("set(%s, parameter<"+t+">(P, "+f[2]+"));", s.args[0])
	case memory.MatchString(s.op) && n == 2:
		return k.access(s, memory.FindStringSubmatch(s.op))
	case strings.HasPrefix(s.op, "cvt.") && n == 2:
		return k.convert(s, unknown)
	}
	shape := shapes[op]
	if shape == "" || n != 1+len(shape) {
		return "", unknown
	}
	return k.compute(op, last, shape, s.args)
}

// compute is an instruction of the table of shapes.
func (k *kernel) compute(op, last, shape string, args []string) (string, error) {
	t, err := typeOf(last)
	if err != nil {
		return "", err
	}
	c := "set(%s, op_" + strings.ReplaceAll(op, ".", "_") + "<" + t + ">("
	for i, letter := range shape {
		if i > 0 {
			c += ", "
		}
		c += "as<" + map[rune]string{'t': t, 'u': "uint32_t", 'p': "bool"}[letter] + ">(%s)"
	}
	return k.call(c+"));", args...)
}

// convert is cvt, to the one but last type from the last.
func (k *kernel) convert(s statement, unknown error) (string, error) {
	p := strings.Split(s.op, ".")
	if len(p) < 3 {
		return "", unknown
	}
	to, err := typeOf(p[len(p)-2])
	if err != nil {
		return "", err
	}
	from, err := typeOf(p[len(p)-1])
	if err != nil {
		return "", err
	}
	kind := func(t string) string {
		if t == "float" || t == "double" {
			return "f"
		}
		return "i"
	}
	op := strings.Join(p[:len(p)-2], ".")
	if !conversions[op+" "+kind(from)+" "+kind(to)] {
		return "", unknown
	}
	return k.call("set(%s, convert<"+to+">(as<"+from+">(%s)));", s.args...)
}

// access is a load or a store, of a vector where it says so.
func (k *kernel) access(s statement, f []string) (string, error) {
	t, err := typeOf(f[4])
	if err != nil {
		return "", err
	}
	at, registers, n := s.args[1], s.args[0], 1
	if f[1] == "st" {
		at, registers = registers, at
	}
	a := address.FindStringSubmatch(at)
	if a == nil {
		return "", fmt.Errorf("address %q is unknown to the translation", at)
	}
	list := []string{registers}
	if f[3] != "" {
		n, list = atoi(f[3]), operands(strings.Trim(registers, "{}"))
	}
	if len(list) != n {
		return "", fmt.Errorf("%d registers, expected %d", len(list), n)
	}
	base, err := k.operand(a[1])
	if err != nil {
		return "", err
	}
	offset := "0"
	if a[2] != "" {
		offset = a[2]
	}
	c := fmt.Sprintf("{ %s* at = k_%s<%s, %d, %v>(as<uint64_t>(%s) + (int64_t)%s, %d);", t, f[2], t, n, f[1] == "st",
		base, offset, s.line)
	for i, r := range list {
		format := fmt.Sprintf(" set(%%s, at[%d]);", i)
		if f[1] == "st" {
			format = fmt.Sprintf(" at[%d] = as<%s>(%%s);", i, t)
		}
		one, err := k.call(format, r)
		if err != nil {
			return "", err
		}
		c += one
	}
	return c + " }", nil
}

// counter is an access that blocks which run at once wait by, to an address without an offset.
func (k *kernel) counter(format string, line int, at, value string) (string, error) {
	a := address.FindStringSubmatch(at)
	if a == nil || a[2] != "" {
		return "", fmt.Errorf("address %q is unknown to the translation", at)
	}
	return k.call(fmt.Sprintf("emu::line = %d; ", line)+format, a[1], value)
}

// multiply is a product of tiles in the registers of a warp.
func (k *kernel) multiply(function string, s statement, unknown error) (string, error) {
	var lists [4][]string // D, A, B, C
	for i, n := range [4]int{4, 4, 2, 4} {
		if lists[i] = operands(strings.Trim(s.args[i], "{}")); len(lists[i]) != n {
			return "", unknown
		}
	}
	d, a, b, c := lists[0], lists[1], lists[2], lists[3]
	return k.call("{ float d[4] = {as<float>(%s), as<float>(%s), as<float>(%s), as<float>(%s)}; uint32_t a[4] = {%s, "+
		"%s, %s, %s}, b[2] = {%s, %s}; "+function+"(d, a, b); set(%s, d[0]); set(%s, d[1]); set(%s, d[2]); "+
		"set(%s, d[3]); }", slices.Concat(c, a, b, d)...)
}

// split takes a register apart, the lower half first; tmp stands for a half that is not wanted. The first operands are
// the bits of a half and of the register.
func (k *kernel) split(s statement) (string, error) {
	var all string
	half, whole := s.args[0], s.args[1]
	for i, to := range s.args[2:4] {
		if to == "tmp" {
			continue
		}
		c, err := k.call(fmt.Sprintf("set(%%s, (uint%s_t)(as<uint%s_t>(%%s) >> %d)); ", half, whole, atoi(half)*i), to,
			s.args[4])
		if err != nil {
			return "", err
		}
		all += c
	}
	return strings.TrimSpace(all), nil
}

// call fills operands into a format.
func (k *kernel) call(format string, args ...string) (string, error) {
	all := make([]any, len(args))
	for i, a := range args {
		c, err := k.operand(a)
		if err != nil {
			return "", err
		}
		all[i] = c
	}
	return fmt.Sprintf(format, all...), nil
}

// operand is a register, a number, or the address of a variable in shared memory.
func (k *kernel) operand(a string) (string, error) {
	if s := special[a]; s != "" {
		return s, nil
	}
	if register.MatchString(a) {
		return a[1:], nil
	}
	if f := bitsOf.FindStringSubmatch(a); f != nil {
		if f[1] == "f" && len(f[2]) == 8 {
			return "bits<float>(0x" + f[2] + "u)", nil
		}
		if f[1] == "d" && len(f[2]) == 16 {
			return "bits<double>((uint64_t)0x" + f[2] + "ull)", nil
		}
	}
	if number.MatchString(a) {
		if n, err := strconv.ParseInt(a, 0, 64); err == nil {
			return fmt.Sprintf("(uint64_t)0x%xull", uint64(n)), nil
		}
		if n, err := strconv.ParseUint(a, 0, 64); err == nil {
			return fmt.Sprintf("(uint64_t)0x%xull", n), nil
		}
	}
	if strings.HasPrefix(a, "_Z") {
		return "(uint64_t)" + a, nil
	}
	if a != "" && a == k.module.dynamic {
		return "(uint64_t)emu::dynamic_shared", nil
	}
	return "", fmt.Errorf("operand %q is unknown to the translation", a)
}
