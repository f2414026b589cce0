package ui

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is text in aligned columns.
type Table struct {
	head  []cell
	right []bool // per column
	rows  [][]cell
}

// cell is a text and its style, "" for plain.
type cell struct {
	text  string
	style Style
}

// NewTable starts a table. A heading that begins with ">" makes its column right-aligned, for numbers.
func NewTable(head ...string) *Table {
	t := &Table{}
	for _, h := range head {
		name, right := strings.CutPrefix(h, ">")
		t.head, t.right = append(t.head, cell{text: name}), append(t.right, right)
	}
	return t
}

// Row adds a row. Missing cells are empty.
func (t *Table) Row(cells ...string) {
	row := make([]cell, len(t.head))
	for i, text := range cells {
		row[i].text = Clean(text)
	}
	t.rows = append(t.rows, row)
}

// Style sets the style of cells of the last row, by their columns from 0.
func (t *Table) Style(s Style, columns ...int) {
	for _, i := range columns {
		t.rows[len(t.rows)-1][i].style = s
	}
}

// DropEmpty removes the columns that have no text below the heading.
func (t *Table) DropEmpty() {
	for i := len(t.head) - 1; i >= 0; i-- {
		if slices.ContainsFunc(t.rows, func(row []cell) bool { return row[i].text != "" }) {
			continue
		}
		t.head, t.right = slices.Delete(t.head, i, i+1), slices.Delete(t.right, i, i+1)
		for k := range t.rows {
			t.rows[k] = slices.Delete(t.rows[k], i, i+1)
		}
	}
}

// Write writes the table to Out, with its headings in bold and its cells in their styles if Out shows colours. Lines
// wider than a terminal end with an ellipsis; files and pipes get whole lines.
func (t *Table) Write(s *Streams) {
	width := make([]int, len(t.head))
	for _, row := range append([][]cell{t.head}, t.rows...) {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	most := 0
	if s.OutTTY {
		most = s.columns()
	}
	for i, row := range append([][]cell{t.head}, t.rows...) {
		var line strings.Builder
		for k, c := range row {
			pad := strings.Repeat(" ", width[k]-utf8.RuneCountInString(c.text))
			if text := s.Paint(c.style, c.text); t.right[k] {
				line.WriteString(pad + text + "  ")
			} else {
				line.WriteString(text + pad + "  ")
			}
		}
		text := clip(strings.TrimRight(line.String(), " "), most)
		if i == 0 {
			text = s.Paint(Bold, text)
		}
		s.Show(text + "\n")
	}
}

// clip cuts a line to a width in columns, with an ellipsis at the end; 0 means no limit. Escape sequences take no
// column.
func clip(line string, width int) string {
	if width == 0 || columnsOf(line) <= width {
		return line
	}
	end := "" // of the style at the cut
	for at, column := 0, 0; ; {
		if strings.HasPrefix(line[at:], own) {
			sequence := line[at : at+1+strings.IndexByte(line[at:], 'm')]
			at += len(sequence)
			if end = own + "[0m"; sequence == end {
				end = ""
			}
		} else if column == width-1 {
			return line[:at] + "…" + end
		} else {
			_, n := utf8.DecodeRuneInString(line[at:])
			at, column = at+n, column+1
		}
	}
}
