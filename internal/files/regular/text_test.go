package regular

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"vsetrain/lab/try"
)

// drawBytes is random text, and sometimes no text.
func drawBytes(rng *rand.Rand) []byte {
	pieces := []string{"a dog", "é", "日本", "😀", "\n", "\r\n", "\ufeff", "\u2028", "\xe9", "\xc3", "\xed\xa0\x80",
		"\xf0\x9f", "\xff"}
	good := 8
	if rng.IntN(3) == 0 {
		good = len(pieces)
	}
	var b []byte
	for range rng.IntN(12) {
		b = append(b, pieces[rng.IntN(good)]...)
	}
	return b
}

// A text is read as it is, without its byte order mark, whole or in pieces, or refused with the line.
func TestTextReader(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 1))
	path, refused := filepath.Join(t.TempDir(), "x.txt"), 0
	all := func(r io.Reader) (string, error) { got, err := io.ReadAll(TextReader(r)); return string(got), err }
	for range 1000 {
		b := drawBytes(rng)
		want := strings.TrimPrefix(string(b), "\ufeff")
		try.Do(t, os.WriteFile(path, b, 0o666))
		for name, read := range map[string]func() (string, error){
			"TextReader":   func() (string, error) { return all(bytes.NewReader(b)) },
			"byte by byte": func() (string, error) { return all(iotest.OneByteReader(bytes.NewReader(b))) },
			"UTF8":         func() (string, error) { got, err := UTF8(bytes.Clone(b)); return string(got), err },
			"ReadText":     func() (string, error) { return ReadText(path, 1000, "words") },
		} {
			got, err := read()
			if utf8.Valid(b) != (err == nil) || err == nil && got != want {
				t.Fatalf("%s of %q: %q, %v", name, b, got, err)
			}
			line := 1 + strings.Count(string(b[:max(0, badByte(b))]), "\n")
			if err != nil && name != "ReadText" && !strings.Contains(err.Error(), "line "+string(rune('0'+line))+":") {
				t.Fatalf("%s of %q: %v, want line %d", name, b, err, line)
			}
		}
		if !utf8.Valid(b) {
			refused++
		}
	}
	if refused < 100 {
		t.Errorf("only %d texts were refused", refused)
	}
}

// An id is text all of which shows.
func TestCheckID(t *testing.T) {
	for _, id := range []string{"a.jpg", "000042", "ü é.jpg", "caf\ufffd.jpg", "日本/1", "../x", "می\u200cخواهم",
		"👩\u200d👧", "cafe\u0301"} {
		try.Do(t, CheckID(id))
	}
	for id, want := range map[string]string{"": "nothing", "caf\xe9": "not UTF-8", "\xed\xa0\x80": "not UTF-8",
		"a\tb": "U+0009", "a\x7f": "U+007F", "a\u009b": "U+009B", "x\u202egpj.exe": "U+202E", "a\u2028b": "U+2028",
		"a\u2029": "U+2029", "a\u200bb": "U+200B", "\ufeffa": "U+FEFF", "a\u2066b": "U+2066", "a\u200f": "U+200F",
		"a\u061c": "U+061C", "a\u00ad": "U+00AD", "a\U000e0041": "U+E0041", "a\u2060": "U+2060"} {
		try.Fails(t, CheckID(id), want)
	}
}
