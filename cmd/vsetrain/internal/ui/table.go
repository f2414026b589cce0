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
	rows  [][]cell
}

// cell is a text and how it is shown where Out shows colours.
type cell struct {
	text  string
	style Style // "" plain
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
	row := make([]cell, len(t.head))
	for i, text := range cells {
		row[i].text = Clean(text)
	}
	t.rows = append(t.rows, row)
}

// Style shows cells of the last row, by their columns from 0, in a style.
func (t *Table) Style(s Style, columns ...int) {
	for _, i := range columns {
		t.rows[len(t.rows)-1][i].style = s
	}
}

// DropEmpty leaves out the columns without any text below the heading.
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

// Write writes the table to Out, headings in bold and cells in their styles where these show. Lines wider than a
// terminal are cut, with a mark at the end; files and pipes get them whole.
func (t *Table) Write(s *Streams) {
	head := make([]cell, len(t.head))
	width := make([]int, len(t.head))
	for i, h := range t.head {
		head[i].text = h
	}
	for _, row := range append([][]cell{head}, t.rows...) {
		for i, c := range row {
			width[i] = max(width[i], utf8.RuneCountInString(c.text))
		}
	}
	most := 0
	if s.OutTTY {
		most = s.columns()
	}
	plain := func(_ Style, text string) string { return text }
	s.Show(s.Paint(Bold, t.line(head, width, most, plain)) + "\n")
	for _, row := range t.rows {
		s.Show(t.line(row, width, most, s.Paint) + "\n")
	}
}

// clip cuts a line to a width in columns, with an ellipsis at the end; 0 means no limit.
func clip(line string, width int) string {
	if r := []rune(line); width > 0 && len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return line
}

// line writes cells of the given widths, cut to most columns (0 means no limit), each painted in its style.
func (t *Table) line(cells []cell, width []int, most int, paint func(Style, string) string) string {
	var plain strings.Builder
	start := make([]int, len(cells)) // of the texts, in bytes
	for i, c := range cells {
		if i > 0 {
			plain.WriteString("  ")
		}
		pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.text))
		if t.right[i] {
			plain.WriteString(pad)
			pad = ""
		}
		start[i] = plain.Len()
		plain.WriteString(c.text + pad)
	}
	whole := strings.TrimRight(plain.String(), " ")
	line := clip(whole, most)
	last := len(line) // where the text ends that is not the mark of a cut
	if line != whole {
		last -= len("…")
	}
	var b strings.Builder
	at := 0
	for i, c := range cells {
		from, to := start[i], start[i]+len(c.text)
		if c.style == "" || from >= last {
			continue
		}
		if to > last {
			to = len(line)
		}
		b.WriteString(line[at:from])
		b.WriteString(paint(c.style, line[from:to]))
		at = to
	}
	b.WriteString(line[at:])
	return b.String()
}
