package regular

import (
	"bytes"
	"fmt"
	"unicode/utf8"
	"unsafe"
)

// ReadText reads a text in UTF-8 of at most limit bytes whose lines are records: captions, ids, words. what names them
// for errors. A file of another format is an error, also a web page, XML or JSON, which are text too.
func ReadText(path string, limit int64, what string) (string, error) {
	b, err := ReadFile(path, limit, what)
	if err != nil {
		return "", err
	}
	format, says := Content(b[:min(len(b), Sniffed)], path)
	lines := format == Text || format == Table || format == "" || format == "empty"
	if i := badByte(b); i >= 0 {
		found := "bytes that are not UTF-8"
		if b[i] == 0 {
			found = "a zero byte"
		}
		if lines {
			says = fmt.Sprintf("text of another encoding, such as Latin-1; `iconv -f LATIN1 -t UTF-8 %s > NEW` "+
				"converts that", Quote(path))
		}
		return "", fmt.Errorf("%s:%d: expected %s as text in UTF-8, found %s; the file is %s", path,
			1+bytes.Count(b[:i], []byte{'\n'}), what, found, says)
	}
	if !lines {
		return "", fmt.Errorf("%s: expected %s as lines of text; the file is %s", path, what, says)
	}
	return unsafe.String(unsafe.SliceData(b), len(b)), nil // nobody else has b
}

// badByte returns the place of the first byte that is zero or not UTF-8, -1 where there is none.
func badByte(b []byte) int {
	zero := bytes.IndexByte(b, 0)
	if utf8.Valid(b) {
		return zero
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(b[i:])
		if i == zero || r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
}
