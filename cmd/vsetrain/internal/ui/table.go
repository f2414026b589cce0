package ui

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is text in aligned columns. A library such as go-pretty offers more than these columns need.
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

// DropEmpty leaves out the columns without any text below the heading.
func (t *Table) DropEmpty() {
	for i := len(t.head) - 1; i >= 0; i-- {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "" }) {
			continue
		}
		t.head, t.right = slices.Delete(t.head, i, i+1), slices.Delete(t.right, i, i+1)
		for k := range t.rows {
			t.rows[k] = slices.Delete(t.rows[k], i, i+1)
		}
	}
}

// Write writes the table to Out, the headings in bold where they show. Lines wider than a terminal are cut, with a mark
// at the end; files and pipes get them whole.
func (t *Table) Write(s *Streams) {
	width := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	most := 0
	if s.OutTTY {
		most = s.columns()
	}
	s.Printf("%s\n", s.Paint(Bold, clip(t.line(t.head, width), most)))
	for _, row := range t.rows {
		s.Printf("%s\n", clip(t.line(row, width), most))
	}
}

// clip cuts a line to a width in columns, with an ellipsis at the end; 0 is no limit.
func clip(line string, width int) string {
	if r := []rune(line); width > 0 && len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return line
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
