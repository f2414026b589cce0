package kernels

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed kernels.tsv
var declarations string

// Written returns for every kernel which parameters it may write through, bit i for parameter i. The PTX does not say
// that.
func Written() (map[string]uint64, error) {
	all := map[string]uint64{}
	lines := strings.Split(strings.TrimSpace(declarations), "\n")
	for i, line := range lines[2:] { // after a comment and the names of the columns
		name, parameters, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("kernels.tsv:%d: one column, expected 2: run make kernels", i+3)
		}
		all[name] = 0
		for k, p := range strings.Fields(parameters) {
			if strings.HasPrefix(p, "*") {
				all[name] |= 1 << k
			}
		}
	}
	return all, nil
}
