package jsontext

import (
	"io"
	"slices"
)

// Lines is a Reader that remembers where lines end, for messages that name the line of a byte.
type Lines struct {
	r    io.Reader
	at   int64
	ends []int64
}

// NewLines returns a Reader of r.
func NewLines(r io.Reader) *Lines { return &Lines{r: Reader(r)} }

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

// Line returns the line, from 1, of a byte that has been read.
func (l *Lines) Line(offset int64) int {
	n, _ := slices.BinarySearch(l.ends, offset+1)
	return n + 1
}
