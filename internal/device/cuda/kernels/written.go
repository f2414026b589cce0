package kernels

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

var declaration = regexp.MustCompile(`(?m)^KERNEL (\w+)\(([^)]*)\)`)

// Written says for every kernel which parameters it may write through, bit i for parameter i: those that the sources declare as pointers to what is not
// const. PTX does not know.
func Written() (map[string]uint64, error) {
	names, err := fs.Glob(files, "*.cu")
	if err != nil {
		return nil, err
	}
	all := map[string]uint64{}
	for _, name := range names {
		source, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, d := range declaration.FindAllStringSubmatch(string(source), -1) {
			var mask uint64
			parameters := strings.Split(d[2], ",")
			if len(parameters) > 64 {
				return nil, fmt.Errorf("%s: kernel %s has %d parameters, expected at most 64", name, d[1], len(parameters))
			}
			for i, p := range parameters {
				if strings.Contains(p, "*") && !strings.HasPrefix(strings.TrimSpace(p), "const ") {
					mask |= 1 << i
				}
			}
			all[d[1]] = mask
		}
	}
	return all, nil
}
