package data

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"vsetrain/data/text"
	"vsetrain/internal/files/regular"
)

// lineFile is a text file in memory with the span of each line, without white space at its ends.
type lineFile struct {
	path  string
	text  string
	spans []lineSpan
}

type lineSpan struct{ lo, hi uint32 }

// maxLineFile is the largest size for spans of 32 bits.
const maxLineFile = 1<<32 - 1

// readLines reads a UTF-8 file of captions, ids or the like; what names them in errors. A line feed ends a line.
func readLines(path, what string) (*lineFile, error) {
	s, err := regular.ReadText(path, maxLineFile, what)
	if err != nil {
		return nil, err
	}
	return splitLines(path, s), nil
}

func splitLines(path, s string) *lineFile {
	l := &lineFile{path: path, text: s, spans: make([]lineSpan, 0, strings.Count(s, "\n")+1)}
	for start := 0; start < len(s); {
		end := len(s)
		if i := strings.IndexByte(s[start:], '\n'); i >= 0 {
			end = start + i
		}
		line := s[start:end]
		lo, hi := start, end
		if len(line) > 0 && !(isPrint(line[0]) && isPrint(line[len(line)-1])) {
			left := strings.TrimLeftFunc(line, text.IsSpace)
			lo = start + len(line) - len(left)
			hi = lo + len(strings.TrimRightFunc(left, text.IsSpace))
		}
		l.spans = append(l.spans, lineSpan{uint32(lo), uint32(hi)})
		start = end + 1
	}
	return l
}

// isPrint reports whether a byte is ASCII that is not a blank.
func isPrint(b byte) bool { return b > ' ' && b < 0x7f }

func (l *lineFile) len() int { return len(l.spans) }

func (l *lineFile) line(i int) string { return l.text[l.spans[i].lo:l.spans[i].hi] }

// at returns FILE:LINE.
func at(l *lineFile, i int) string { return fmt.Sprintf("%s:%d", l.path, i+1) }

// empty returns the number of blank lines among the first n, and the number of the first one, from 1.
func (l *lineFile) empty(n int) (count, first int) {
	if l == nil {
		return 0, 0
	}
	for i, s := range l.spans[:n] {
		if s.lo == s.hi {
			count, first = count+1, cmp.Or(first, i+1)
		}
	}
	return count, first
}

// missing reports whether err says that a file does not exist.
func missing(err error) bool { return errors.Is(err, os.ErrNotExist) }
