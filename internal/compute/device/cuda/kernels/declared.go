package kernels

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed kernels.tsv
var declarations string

// Declaration is a kernel as its source declares it.
type Declaration struct {
	Name       string
	Parameters []Parameter
	Cost       string // what it moves and computes: the comment "Cost:" above it (package model)
}

// Parameter is a parameter of a kernel.
type Parameter struct {
	Name    string
	Pointer bool
	Written bool // a pointer to what is not const: the kernel may write through it
}

// Declared returns the kernels in the order of their sources.
func Declared() ([]Declaration, error) {
	var all []Declaration
	for i, line := range strings.Split(strings.TrimSpace(declarations), "\n") {
		if i < 2 { // a comment and the names of the columns
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("kernels.tsv:%d: %d columns, expected 3: run make kernels", i+1, len(fields))
		}
		d := Declaration{Name: fields[0], Cost: fields[2]}
		for _, p := range strings.Fields(fields[1]) {
			kind, name, pointer := strings.Cut(p, "*")
			if !pointer {
				name = p
			}
			d.Parameters = append(d.Parameters, Parameter{Name: name, Pointer: pointer, Written: pointer && kind == ""})
		}
		all = append(all, d)
	}
	return all, nil
}

// Written says for every kernel which parameters it may write through, bit i for parameter i. PTX does not know.
func Written() (map[string]uint64, error) {
	declared, err := Declared()
	if err != nil {
		return nil, err
	}
	all := map[string]uint64{}
	for _, d := range declared {
		all[d.Name] = 0
		for i, p := range d.Parameters {
			if p.Written {
				all[d.Name] |= 1 << i
			}
		}
	}
	return all, nil
}
