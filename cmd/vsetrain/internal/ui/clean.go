package ui

import (
	"crypto/rand"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// own begins the escape sequences of this program until they are written. It is random, so no file can contain it.
var own = "\x1b" + rand.Text()

// shown makes a text safe for a terminal: it keeps the escape sequences of this program and writes other control
// characters, invisible characters and invalid UTF-8 as \x1b or \u202e. All text for a terminal passes through it, and
// so do messages and tables for people.
func shown(text string) string {
	if strings.IndexFunc(text, steers) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case strings.HasPrefix(text[i:], own):
			b.WriteByte('\x1b')
			n = len(own)
		case r == utf8.RuneError && n == 1, r < 0x80 && steers(r):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case steers(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

// steers reports whether a character moves the cursor, begins a command of the terminal, is invisible, or changes the
// direction of others. Zero-width joiners belong to words.
func steers(r rune) bool {
	switch r {
	case '\n', '\t', 0x200c, 0x200d:
		return false
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

// Clean is shown for a text of a file on one line, which is measured or cut before it is printed.
func Clean(text string) string {
	return shown(strings.NewReplacer("\n", `\n`, own, `\x1b`).Replace(text))
}
