package regular

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// ReadText reads a text in UTF-8 of at most limit bytes whose lines are records, such as captions, ids or words; what
// names them in errors. It drops a byte order mark. A file of another format is an error, even if that is text, such as
// HTML, XML or JSON.
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
	b = bytes.TrimPrefix(b, []byte(byteOrderMark))
	return unsafe.String(unsafe.SliceData(b), len(b)), nil // nobody else has b
}

// badByte returns the index of the first byte that is zero or not UTF-8, -1 if there is none.
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

// byteOrderMark may begin a text and is not part of it.
const byteOrderMark = "\ufeff"

// TextReader returns the text of r without a byte order mark. Bytes that are not UTF-8 are an error that names their
// line.
func TextReader(r io.Reader) io.Reader {
	in := bufio.NewReader(r)
	if b, _ := in.Peek(len(byteOrderMark)); string(b) == byteOrderMark {
		in.Discard(len(b))
	}
	return &textReader{in: in}
}

type textReader struct {
	in    io.Reader
	lines int
	cut   []byte // the beginning of a character that continues in the next read
	err   error
}

func (r *textReader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.in.Read(p)
	b := append(r.cut, p[:n]...)
	r.cut = nil
	if !utf8.Valid(b) {
		i := badByte(b)
		if err != nil || utf8.FullRune(b[i:]) {
			r.err = fmt.Errorf("line %d: expected text in UTF-8, found %q; `iconv -f LATIN1 -t UTF-8 FILE > NEW` "+
				"converts text in Latin-1", 1+r.lines+bytes.Count(b[:i], []byte("\n")), b[i:i+1])
			return 0, r.err
		}
		b, r.cut = b[:i], bytes.Clone(b[i:])
	}
	r.lines += bytes.Count(b, []byte("\n"))
	return n, err
}

// UTF8 returns a text without a byte order mark. It is an error if the text is not UTF-8.
func UTF8(b []byte) ([]byte, error) {
	if !utf8.Valid(b) {
		return io.ReadAll(TextReader(bytes.NewReader(b)))
	}
	return bytes.TrimPrefix(b, []byte(byteOrderMark)), nil
}

// CheckID returns an error if id cannot be the id of an image. Ids are compared by their bytes, so they must be UTF-8
// without invisible characters: controls, direction marks, zero-width spaces, line and paragraph separators. Joiners
// are allowed, because Persian, languages of India and emoji need them.
func CheckID(id string) error {
	found := ""
	switch i := strings.IndexFunc(id, hidden); {
	case id == "":
		return errors.New("expected an image id, found nothing")
	case !utf8.ValidString(id):
		found = "bytes that are not UTF-8"
	case i >= 0:
		r, _ := utf8.DecodeRuneInString(id[i:])
		found = fmt.Sprintf("%U, which does not show", r)
	default:
		return nil
	}
	return fmt.Errorf("expected an image id in UTF-8 without control characters, found %s in %+.100q; write it "+
		"without that", found, id)
}

// hidden reports whether a character is invisible or changes how others appear.
func hidden(r rune) bool {
	const nonJoiner, joiner = 0x200c, 0x200d
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) && r != nonJoiner && r != joiner
}
