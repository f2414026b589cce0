// Package csvfile writes tables as CSV that spreadsheets take for data too.
package csvfile

import (
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formulas are the letters with which a cell begins that a spreadsheet computes.
const formulas = "=+-@\t\r\n＝＋－＠"

// Writer writes records. A cell that a spreadsheet would compute has ' in front, which it takes for the mark of a text;
// numbers, and the - of a cell without one, stay as they are.
type Writer struct{ *csv.Writer }

// NewWriter returns a Writer to w. Its lines are there after Flush.
func NewWriter(w io.Writer) Writer { return Writer{csv.NewWriter(w)} }

// Write writes a record.
func (w Writer) Write(record []string) error {
	cells := make([]string, len(record))
	for i, c := range record {
		cells[i] = c
		if first, _ := utf8.DecodeRuneInString(c); c != "" && c != "-" && strings.ContainsRune(formulas, first) {
			if _, err := strconv.ParseFloat(c, 64); err != nil {
				cells[i] = "'" + c
			}
		}
	}
	return w.Writer.Write(cells)
}
