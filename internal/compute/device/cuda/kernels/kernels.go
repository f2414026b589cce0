// Package kernels holds the CUDA kernels of the device: the sources (*.cu), one file for each family, and their PTX
// (ptx.zip), which clang makes and a GPU's driver compiles when the device uses it.
//
// The PTX is committed, so building the program needs neither clang nor CUDA. `make kernels` writes it anew, a test
// compares it with the sources, and `make ptx-diff` shows what changed. kernels.tsv lists the declarations of the
// sources.
package kernels

import (
	"archive/zip"
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"strings"
	"sync"
)

//go:embed ptx.zip
var archive []byte

// Module is the PTX of one source file.
type Module struct {
	Name    string // elementwise
	PTX     []byte
	Entries []Entry
}

// Entry is a kernel and the types of its parameters, a letter each: p for 64 bits (addresses and long numbers), i for
// 32-bit integers, f for float32.
type Entry struct{ Name, Parameters string }

// Modules returns the kernels in the order of their files' names. The caller must not change them.
var Modules = sync.OnceValues(func() ([]Module, error) {
	files, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("ptx.zip: %w", err)
	}
	var all []Module
	for _, f := range files.File {
		b, err := fs.ReadFile(files, f.Name)
		if err != nil {
			return nil, fmt.Errorf("ptx.zip: %w", err)
		}
		m := Module{Name: strings.TrimSuffix(f.Name, ".ptx"), PTX: b}
		if m.Entries, err = entries(string(b)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		all = append(all, m)
	}
	return all, nil
})

// entries reads ".visible .entry name( .param .u64 name_param_0, … )".
func entries(ptx string) ([]Entry, error) {
	letters := map[string]byte{"u64": 'p', "u32": 'i', "f32": 'f'}
	var all []Entry
	for _, part := range strings.Split(ptx, ".visible .entry ")[1:] {
		name, rest, _ := strings.Cut(part, "(")
		list, _, ok := strings.Cut(rest, ")")
		if !ok {
			return nil, fmt.Errorf("entry %s has no end", name)
		}
		e := Entry{Name: name}
		for _, p := range strings.Split(list, ",") {
			fields := strings.Fields(p)
			if len(fields) == 0 { // no parameters
				continue
			}
			letter := letters[strings.TrimPrefix(fields[min(1, len(fields)-1)], ".")]
			if letter == 0 {
				return nil, fmt.Errorf("entry %s: parameter %q, expected .u64, .u32 or .f32", name,
					strings.TrimSpace(p))
			}
			e.Parameters += string(letter)
		}
		all = append(all, e)
	}
	return all, nil
}
