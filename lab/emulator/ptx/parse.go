package ptx

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A module is the text of one file of PTX, as the compiler of the kernels writes it: one statement or directive a line.
type module struct {
	name    string
	shared  []shared // that every kernel of the file may name
	dynamic string   // the shared memory of a size that a launch says; empty where the file has none
	kernels []*kernel
}

// A kernel is one entry.
type kernel struct {
	name       string
	module     *module
	parameters []int // bytes
	threads    int   // .maxntid
	shared     []shared
	registers  []string // as C++ declares them
	code       []statement
}

// shared is a variable in shared memory.
type shared struct {
	name         string
	align, bytes int
}

// A statement is an instruction with its operands, or a label.
type statement struct {
	line      int
	label     string
	predicate string // !%p1, empty for none
	op        string
	args      []string
}

var (
	entryLine  = regexp.MustCompile(`^\.visible \.entry (\w+)\($`)
	paramLine  = regexp.MustCompile(`^\.param \.[usbf](32|64) \w+_param_\d+,?$`)
	limitLine  = regexp.MustCompile(`^\.maxntid (\d+), 1, 1$`)
	sharedLine = regexp.MustCompile(`^\.shared \.align (\d+) \.b8 (\w+)\[(\d+)\];$`)
	externLine = regexp.MustCompile(`^\.extern \.shared \.align \d+ \.b8 (\w+)\[\];$`)
	regLine    = regexp.MustCompile(`^\.reg \.(\w+)\s+%(\w+)<(\d+)>;$`)
	labelLine  = regexp.MustCompile(`^\$(\w+):$`)
	splitLine  = regexp.MustCompile(`^\{ \.reg \.b(16|32) tmp; mov\.b(32|64) \{(tmp|%\w+), (tmp|%\w+)\}, (%\w+); \}$`)
	codeLine   = regexp.MustCompile(`^(?:@(!?%p\d+)\s+)?([a-z][\w.]*)\s*(.*);$`)
)

// classes are the types of registers in C++.
var classes = map[string]string{
	"pred": "bool", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t", "f32": "float", "f64": "double",
}

// parse reads a file; name is that of the file, for errors.
func parse(name, text string) (*module, error) {
	m := &module{name: name}
	var k *kernel
	inside := false // the braces of a kernel
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "//")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		if err := m.read(line, i+1, &k, &inside); err != nil {
			return nil, fmt.Errorf("%s:%d: %w: %s", name, i+1, err, line)
		}
	}
	if inside || len(m.kernels) == 0 {
		return nil, fmt.Errorf("%s: expected whole kernels, found %d and the end of the file", name, len(m.kernels))
	}
	return m, nil
}

var errUnknown = fmt.Errorf("unknown to the translation")

// read takes one line in.
func (m *module) read(line string, number int, k **kernel, inside *bool) error {
	if f := entryLine.FindStringSubmatch(line); f != nil && !*inside {
		*k = &kernel{name: f[1], module: m}
		m.kernels = append(m.kernels, *k)
		return nil
	}
	if f := sharedLine.FindStringSubmatch(line); f != nil {
		s := shared{name: f[2], align: atoi(f[1]), bytes: atoi(f[3])}
		if *inside {
			(*k).shared = append((*k).shared, s)
		} else {
			m.shared = append(m.shared, s)
		}
		return nil
	}
	if f := externLine.FindStringSubmatch(line); f != nil && !*inside && m.dynamic == "" {
		m.dynamic = f[1]
		return nil
	}
	if *k == nil {
		for _, known := range []string{".version ", ".target ", ".address_size 64"} {
			if strings.HasPrefix(line, known) {
				return nil
			}
		}
		return errUnknown
	}
	if !*inside {
		return (*k).declare(line, inside)
	}
	if line == "}" {
		*inside = false
		return nil
	}
	return (*k).statement(line, number)
}

// declare takes in a line before the braces of a kernel.
func (k *kernel) declare(line string, inside *bool) error {
	if f := paramLine.FindStringSubmatch(line); f != nil {
		k.parameters = append(k.parameters, atoi(f[1])/8)
		return nil
	}
	if f := limitLine.FindStringSubmatch(line); f != nil {
		k.threads = atoi(f[1])
		return nil
	}
	if strings.HasPrefix(line, ".minnctapersm ") { // for the assembler
		return nil
	}
	switch line {
	case ")":
	case "{":
		*inside = true
	default:
		return errUnknown
	}
	return nil
}

// statement takes in a line between the braces.
func (k *kernel) statement(line string, number int) error {
	if f := regLine.FindStringSubmatch(line); f != nil {
		class := classes[f[1]]
		if class == "" {
			return errUnknown
		}
		for i := range atoi(f[3]) {
			k.registers = append(k.registers, fmt.Sprintf("%s %s%d", class, f[2], i))
		}
		return nil
	}
	if f := labelLine.FindStringSubmatch(line); f != nil {
		k.code = append(k.code, statement{line: number, label: f[1]})
		return nil
	}
	if line == `.pragma "nounroll";` {
		return nil
	}
	if f := splitLine.FindStringSubmatch(line); f != nil {
		k.code = append(k.code, statement{line: number, op: "split", args: f[1:]})
		return nil
	}
	f := codeLine.FindStringSubmatch(line)
	if f == nil {
		return errUnknown
	}
	k.code = append(k.code, statement{line: number, predicate: f[1], op: f[2], args: operands(f[3])})
	return nil
}

// operands splits at commas outside of braces and brackets.
func operands(s string) []string {
	if s == "" {
		return nil
	}
	var all []string
	depth, from := 0, 0
	for i, c := range s + "," {
		switch {
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth == 0:
			all = append(all, strings.TrimSpace(s[from:i]))
			from = i + 1
		}
	}
	return all
}

// atoi is of digits that a pattern has matched; numbers beyond an int are 0, which no directive has.
func atoi(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
