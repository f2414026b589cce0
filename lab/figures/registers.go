package main

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// registersTable reads registers.tsv (file, kernel, and the registers of a thread for each architecture) and returns a
// Markdown table of the most registers in each file.
func registersTable(r io.Reader) (string, error) {
	type row struct {
		file    string
		kernels int
		most    []int
	}
	var rows []row
	var architectures []string
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		cells := strings.Split(lines.Text(), "\t")
		switch {
		case strings.HasPrefix(lines.Text(), "#"):
			continue
		case architectures == nil:
			if len(cells) < 3 || cells[0] != "file" || cells[1] != "kernel" {
				return "", fmt.Errorf("line %d: expected the columns file, kernel and architectures", n)
			}
			architectures = cells[2:]
			continue
		case len(cells) != len(architectures)+2:
			return "", fmt.Errorf("line %d: %d cells, expected %d", n, len(cells), len(architectures)+2)
		}
		if len(rows) == 0 || rows[len(rows)-1].file != cells[0] {
			rows = append(rows, row{file: cells[0], most: make([]int, len(architectures))})
		}
		last := &rows[len(rows)-1]
		last.kernels++
		for i, cell := range cells[2:] {
			if cell == "" { // not made for this architecture
				continue
			}
			v, err := strconv.Atoi(cell)
			if err != nil {
				return "", fmt.Errorf("line %d: %q is no number of registers", n, cell)
			}
			last.most[i] = max(last.most[i], v)
		}
	}
	if err := lines.Err(); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| file | kernels | %s |\n|---|---:|%s\n", strings.Join(architectures, " | "),
		strings.Repeat("---:|", len(architectures)))
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s.cu` | %d |", r.file, r.kernels)
		for _, v := range r.most {
			if v == 0 {
				b.WriteString(" |")
			} else {
				fmt.Fprintf(&b, " %d |", v)
			}
		}
		b.WriteByte('\n')
	}
	return b.String(), nil
}
