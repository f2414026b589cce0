package main

import (
	"fmt"
	"strings"
)

// file is the text of one file.
type file struct{ strings.Builder }

// raw writes a line as it is.
func (f *file) raw(s string) { f.WriteString(s + "\n") }

// ins writes an instruction.
func (f *file) ins(format string, args ...any) { f.raw("\t" + fmt.Sprintf(format, args...)) }

// label writes a label.
func (f *file) label(format string, args ...any) { f.raw(fmt.Sprintf(format, args...) + ":") }

// text begins a function of some parameters and results, which take args bytes, with frame bytes on the stack.
func (f *file) text(name, types string, frame, args int) {
	f.raw(fmt.Sprintf("\n// func %s%s\nTEXT ·%[1]s(SB), NOSPLIT, $%[3]d-%[4]d", name, types, frame, args))
}

// data writes a value of some bytes to an offset in read-only memory.
func (f *file) data(name string, offset, bytes int, value string) {
	f.raw(fmt.Sprintf("DATA %s<>+%d(SB)/%d, $%s", name, offset, bytes, value))
}

// globl ends the read-only memory of a name.
func (f *file) globl(name string, bytes int) {
	f.raw(fmt.Sprintf("GLOBL %s<>(SB), RODATA|NOPTR, $%d", name, bytes))
}

// bytes writes machine code with its meaning as a comment.
func (f *file) bytes(comment string, code ...byte) {
	parts := make([]string, len(code))
	for i, c := range code {
		parts[i] = fmt.Sprintf("BYTE $%#02x", c)
	}
	f.ins("%s // %s", strings.Join(parts, "; "), comment)
}
