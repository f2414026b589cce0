package text

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// The character classes of the tokenisation rules: \s, \w and \d of Unicode regular expressions.

// IsSpace reports whether a character is white space in Python, as str.strip removes it.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// spaceAt returns the width of the white space character at s[i], 0 when there is none.
func spaceAt(s []byte, i int) int {
	if r, w := utf8.DecodeRune(s[min(i, len(s)):]); IsSpace(r) {
		return w
	}
	return 0
}

// wordAt reports whether s[i:] starts with a word character.
func wordAt(s []byte, i int) bool {
	r, _ := utf8.DecodeRune(s[min(i, len(s)):])
	return isWord(r)
}

// wordBefore reports whether s[:i] ends with a word character.
func wordBefore(s []byte, i int) bool {
	r, _ := utf8.DecodeLastRune(s[:i])
	return isWord(r)
}

// digitAt returns the width of the decimal digit at s[i], 0 when there is none.
func digitAt(s []byte, i int) int {
	if r, w := utf8.DecodeRune(s[min(i, len(s)):]); unicode.IsDigit(r) {
		return w
	}
	return 0
}

// runeLen returns the width of the character at s[i].
func runeLen(s []byte, i int) int {
	_, w := utf8.DecodeRune(s[i:])
	return w
}

// appendLower appends caption in lower case and without white space at both ends.
func appendLower(dst []byte, caption string) []byte {
	start := len(dst)
	for i := 0; i < len(caption); {
		c := caption[i]
		if c < utf8.RuneSelf {
			if c >= 'A' && c <= 'Z' {
				c += 'a' - 'A'
			}
			dst = append(dst, c)
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(caption[i:])
		dst = utf8.AppendRune(dst, unicode.ToLower(r))
		i += w
	}
	return append(dst[:start], bytes.TrimFunc(dst[start:], IsSpace)...)
}
