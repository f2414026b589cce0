package jsontext

import (
	"io"
	"slices"
)

// Lines is a Reader that remembers where lines end, so that a place of the text can be named by its line.
type Lines struct {
	r    io.Reader
	at   int64
	ends []int64
}

// NewLines returns the Reader of r.
func NewLines(r io.Reader) *Lines { return &Lines{r: Reader(r)} }

// Read implements io.Reader.
func (l *Lines) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	for i, b := range p[:n] {
		if b == '\n' {
			l.ends = append(l.ends, l.at+int64(i)+1)
		}
	}
	l.at += int64(n)
	return n, err
}

// Line returns the line of a byte that has been read, from 1.
func (l *Lines) Line(offset int64) int {
	n, found := slices.BinarySearch(l.ends, offset)
	if found {
		n++
	}
	return n + 1
}
