package kernels

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

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

var declaration = regexp.MustCompile(`(?m)((?:^//.*\n)*)^KERNEL (\w+)\(([^)]*)\)`)

// Declared returns the kernels in the order of their sources.
func Declared() ([]Declaration, error) {
	names, err := fs.Glob(files, "*.cu")
	if err != nil {
		return nil, err
	}
	var all []Declaration
	for _, name := range names {
		source, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, f := range declaration.FindAllStringSubmatch(string(source), -1) {
			d := Declaration{Name: f[2]}
			// However the comment is wrapped.
			comment := strings.Join(strings.Fields(strings.ReplaceAll(f[1], "//", "")), " ")
			_, d.Cost, _ = strings.Cut(comment, "Cost: ")
			for _, p := range strings.Split(f[3], ",") {
				words := strings.FieldsFunc(p, func(r rune) bool { return strings.ContainsRune(" \n*", r) })
				d.Parameters = append(d.Parameters,
					Parameter{Name: words[len(words)-1], Pointer: strings.Contains(p, "*"),
						Written: strings.Contains(p, "*") && !strings.HasPrefix(strings.TrimSpace(p), "const ")})
			}
			if len(d.Parameters) > 64 {
				return nil, fmt.Errorf("%s: kernel %s has %d parameters, expected at most 64", name, d.Name,
					len(d.Parameters))
			}
			all = append(all, d)
		}
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
