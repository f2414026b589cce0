// Package csvfile writes tables as CSV in which spreadsheets compute nothing.
package csvfile

import (
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formulas are the characters with which a formula begins in spreadsheets.
const formulas = "=+-@\t\r\n＝＋－＠"

// Writer writes records. It puts ' before a cell that a spreadsheet would compute, which marks the cell as text.
// Numbers, and a - in place of a missing number, stay unchanged.
type Writer struct{ *csv.Writer }

// NewWriter returns a Writer to w. Call Flush after the last record.
func NewWriter(w io.Writer) Writer { return Writer{csv.NewWriter(w)} }

// Write writes a record.
func (w Writer) Write(record []string) error {
	cells := slices.Clone(record)
	for i, c := range record {
		if first, _ := utf8.DecodeRuneInString(c); c != "" && c != "-" && strings.ContainsRune(formulas, first) {
			if _, err := strconv.ParseFloat(c, 64); err != nil {
				cells[i] = "'" + c
			}
		}
	}
	return w.Writer.Write(cells)
}
