package kernels

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed kernels.tsv
var declarations string

// Written says for every kernel which parameters it may write through, bit i for parameter i. PTX does not know.
func Written() (map[string]uint64, error) {
	all := map[string]uint64{}
	for i, line := range strings.Split(strings.TrimSpace(declarations), "\n") {
		if i < 2 { // a comment and the names of the columns
			continue
		}
		name, parameters, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("kernels.tsv:%d: one column, expected 2: run make kernels", i+1)
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
