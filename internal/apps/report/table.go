package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"vsetrain/eval"
	"vsetrain/internal/stats"
)

// Table is a table that can be rendered as text, Markdown, LaTeX, CSV and HTML (in a page). The library go-pretty does
// not write LaTeX.
type Table struct {
	Name  string // of its files
	Title string
	Notes []string // below it
	Heads []Head
	Rows  []Row
}

// Head is the heading of a column.
type Head struct {
	Over   string // heading above several columns; "" for none
	Name   string
	Number bool // right-aligned
}

// Row is a row of a table.
type Row struct {
	Cells []Cell
	Rule  bool // a line above it
	Bold  bool
}

// Cell is a text, or a number with an optional standard deviation.
type Cell struct {
	Text   string  // for people
	Value  float64 // for programs, if Number is set
	Std    float64 // NaN if there is none
	Number bool
}

// heads returns headings of columns. A leading > marks a column of numbers; OVER|NAME is a name below a heading of
// several columns.
func heads(names ...string) (out []Head) {
	for _, name := range names {
		name, number := strings.CutPrefix(name, ">")
		over, below, ok := strings.Cut(name, "|")
		if !ok {
			over, below = "", name
		}
		out = append(out, Head{over, below, number})
	}
	return out
}

// row adds a row, with rule below a line. A cell is a Cell, a []Cell, a string, or an int.
func (t *Table) row(rule bool, cells ...any) {
	r := Row{Rule: rule}
	for _, c := range cells {
		switch c := c.(type) {
		case string:
			r.Cells = append(r.Cells, textCell(c))
		case int:
			r.Cells = append(r.Cells, numberCell(float64(c), 0))
		case Cell:
			r.Cells = append(r.Cells, c)
		case []Cell:
			r.Cells = append(r.Cells, c...)
		default:
			panic(fmt.Sprintf("report: a cell of a %T", c))
		}
	}
	t.Rows = append(t.Rows, r)
}

func textCell(s string) Cell { return Cell{Text: s} }

func numberCell(v float64, decimals int) Cell {
	return Cell{Text: fixed(v, decimals), Value: v, Std: math.NaN(), Number: true}
}

// signedCell is statCell with the sign of a difference.
func signedCell(values []float64, decimals int) Cell {
	c := statCell(values, decimals)
	if c.Number && !strings.HasPrefix(c.Text, "-") {
		c.Text = "+" + c.Text
	}
	return c
}

// statCell shows the mean over seeds and the sample standard deviation; a single value without it, and a dash for none.
func statCell(values []float64, decimals int) Cell {
	switch len(values) {
	case 0:
		return textCell("-")
	case 1:
		return numberCell(values[0], decimals)
	}
	mean, std := eval.MeanStd(values...)
	return spreadCell(mean, std, decimals)
}

func statCells(columns [][]float64) (cells []Cell) {
	for _, values := range columns {
		cells = append(cells, statCell(values, 1))
	}
	return cells
}

func spreadCell(mean, std float64, decimals int) Cell {
	return Cell{Text: fixed(mean, decimals) + " ± " + fixed(std, decimals), Value: mean, Std: std, Number: true}
}

// rangeCell shows an interval.
func rangeCell(i stats.Interval, decimals int) Cell {
	return textCell(fixed(i.Low, decimals) + " to " + fixed(i.High, decimals))
}

// pCell shows a p-value.
func pCell(p float64) Cell {
	if p < 0.0001 {
		return Cell{Text: "< 0.0001", Value: p, Std: math.NaN(), Number: true}
	}
	return numberCell(p, 4)
}

// addHolm adds a column after every column of p-values, with the p-values corrected for multiple tests by Holm's
// method.
func (t *Table) addHolm() {
	for i := len(t.Heads) - 1; i >= 0; i-- {
		if t.Heads[i].Name != "p" {
			continue
		}
		var p []float64
		for _, r := range t.Rows {
			if r.Cells[i].Number {
				p = append(p, r.Cells[i].Value)
			}
		}
		p = stats.Holm(p)
		t.Heads = slices.Insert(t.Heads, i+1, Head{t.Heads[i].Over, "p, Holm", true})
		for r := range t.Rows {
			cell := textCell("-")
			if t.Rows[r].Cells[i].Number {
				cell, p = pCell(p[0]), p[1:]
			}
			t.Rows[r].Cells = slices.Insert(t.Rows[r].Cells, i+1, cell)
		}
	}
	t.Notes = append(t.Notes, "p, Holm: corrected for all tests of the column, so that the chance of any false alarm "+
		"among them is at most the level. Intervals are not corrected for multiple comparisons.")
}

// dropColumn removes a column.
func (t *Table) dropColumn(i int) {
	t.Heads = slices.Delete(t.Heads, i, i+1)
	for r := range t.Rows {
		t.Rows[r].Cells = slices.Delete(t.Rows[r].Cells, i, i+1)
	}
}

// fixed formats a number with the given number of decimals, and never as -0.0. Numbers that differ only by rounding
// errors of a sum give the same text.
func fixed(v float64, decimals int) string {
	const grid = 1e9 // of a unit, far above the errors of sums and far below what is shown
	if math.Abs(v) < 1e6 {
		v = math.Round(v*grid) / grid
	}
	s := strconv.FormatFloat(v, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		s = strings.TrimPrefix(s, "-")
	}
	return s
}

// Text returns the table in aligned columns, with its title and notes. bold marks headings; it may be nil.
func (t *Table) Text(bold func(string) string) string {
	if bold == nil {
		bold = func(s string) string { return s }
	}
	width := make([]int, len(t.Heads))
	for i, h := range t.Heads {
		width[i] = utf8.RuneCountInString(h.Name)
		for _, r := range t.Rows {
			width[i] = max(width[i], utf8.RuneCountInString(r.Cells[i].Text))
		}
	}
	spans, room, from := t.Spans(), []int(nil), 0 // room is the width of each span
	for _, s := range spans {
		have := 2 * (s.Width - 1)
		for _, w := range width[from : from+s.Width] {
			have += w
		}
		from += s.Width
		width[from-1] += max(0, utf8.RuneCountInString(s.Text)-have) // a wide heading widens its last column
		room = append(room, max(have, utf8.RuneCountInString(s.Text)))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", bold(t.Title))
	if spans != nil {
		line := ""
		for i, s := range spans {
			line += strings.Repeat(" ", room[i]-utf8.RuneCountInString(s.Text)) + s.Text + "  "
		}
		fmt.Fprintf(&b, "%s\n", bold(strings.TrimRight(line, " ")))
	}
	row := func(cells func(i int) string) string {
		line := ""
		for i, h := range t.Heads {
			text := cells(i)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			if h.Number {
				text = pad + text
			} else {
				text += pad
			}
			line += text + "  "
		}
		return strings.TrimRight(line, " ")
	}
	fmt.Fprintf(&b, "%s\n", bold(row(func(i int) string { return t.Heads[i].Name })))
	for _, r := range t.Rows {
		fmt.Fprintf(&b, "%s\n", row(func(i int) string { return r.Cells[i].Text }))
	}
	for _, n := range t.Notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	return b.String()
}

// Span is a heading above columns, or a gap.
type Span struct {
	Text  string
	Width int
}

// Spans returns the headings above all columns; nil if there are none.
func (t *Table) Spans() (out []Span) {
	for _, h := range t.Heads {
		if n := len(out); n > 0 && out[n-1].Text == h.Over {
			out[n-1].Width++
		} else {
			out = append(out, Span{h.Over, 1})
		}
	}
	if len(out) == 1 && out[0].Text == "" {
		return nil
	}
	return out
}
