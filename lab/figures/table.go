package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// row is a line of a table in a file: its cells by their columns, and the numbers among them.
type row struct {
	at      string // file and line
	columns []string
	text    map[string]string
	number  map[string]float64
}

// rows reads a table of the repository.
func (b *book) rows(name string, columns ...string) ([]row, error) {
	f, err := os.Open(filepath.Join(b.root, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRows(f, name, columns...)
}

// readRows reads a table whose cells are separated by tabs, or by commas in a .csv file. Lines that begin with # are
// comments. In columns, > marks a column of numbers of at least 0 or empty cells; >* allows any further such columns.
func readRows(r io.Reader, name string, columns ...string) (rows []row, err error) {
	lines := csv.NewReader(r)
	lines.Comment, lines.LazyQuotes = '#', true
	if filepath.Ext(name) != ".csv" {
		lines.Comma = '\t'
	}
	var head []string
	for {
		cells, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		line, _ := lines.FieldPos(0)
		r := row{fmt.Sprintf("%s:%d", name, line), head, map[string]string{}, map[string]float64{}}
		if head == nil {
			head = cells
			if last := len(columns) - 1; columns[last] == ">*" && len(head) > last {
				columns = columns[:last:last]
				for _, c := range head[last:] {
					columns = append(columns, ">"+c)
				}
			}
			if want := strings.ReplaceAll(strings.Join(columns, " "), ">", ""); want != strings.Join(head, " ") {
				return nil, fmt.Errorf("%s: columns %q, expected %s", r.at, head, want)
			}
			continue
		}
		for i, c := range columns {
			c, number := strings.CutPrefix(c, ">")
			if r.text[c] = cells[i]; !number || cells[i] == "" {
				continue
			}
			v, err := strconv.ParseFloat(cells[i], 64)
			if err != nil || !(v >= 0 && v < 1e9) {
				return nil, fmt.Errorf("%s: %s %q, expected a number of at least 0, or nothing", r.at, c, cells[i])
			}
			r.number[c] = v
		}
		rows = append(rows, r)
	}
}

// table is a table in Markdown.
type table struct{ strings.Builder }

// newTable starts a table. In heads, > marks a column of numbers.
func newTable(heads ...string) *table {
	t, rule := &table{}, "|"
	heads = slices.Clone(heads)
	for i, h := range heads {
		name, number := strings.CutPrefix(h, ">")
		if heads[i] = name; number {
			rule += "---:|"
		} else {
			rule += "---|"
		}
	}
	t.row(heads...)
	t.WriteString(rule + "\n")
	return t
}

func (t *table) row(cells ...string) {
	t.WriteString("|")
	for _, c := range cells {
		if c != "" {
			t.WriteString(" " + c)
		}
		t.WriteString(" |")
	}
	t.WriteString("\n")
}

const missing = "–"

// whole writes 20076 as 20,076, and 0 as missing.
func whole(v float64) string {
	if v == 0 {
		return missing
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
