package ui

import (
	"strings"
	"unicode/utf8"
)

// Table is text in aligned columns.
type Table struct {
	head  []string
	right []bool
	rows  [][]string
}

// NewTable starts a table. A heading that begins with ">" makes its column right-aligned, for numbers.
func NewTable(head ...string) *Table {
	t := &Table{}
	for _, h := range head {
		name, right := strings.CutPrefix(h, ">")
		t.head, t.right = append(t.head, name), append(t.right, right)
	}
	return t
}

// Row adds a row; missing cells are empty.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.head))
	copy(row, cells)
	t.rows = append(t.rows, row)
}

// Write writes the table to Out, the headings in bold where they show.
func (t *Table) Write(s *Streams) {
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	s.Printf("%s\n", s.Paint(Bold, t.line(t.head, width)))
	for _, row := range t.rows {
		s.Printf("%s\n", t.line(row, width))
	}
}

func (t *Table) line(cells []string, width []int) string {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteString("  ")
		}
		pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
		if t.right[i] {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
