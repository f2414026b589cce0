package text

import (
	"unicode"
	"unicode/utf8"
)

// The character classes of the tokenisation rules: \s, \w and \d of Unicode regular expressions.

func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

// spaceAt returns the width of the white space character at s[i], 0 when there is none.
func spaceAt(s []byte, i int) int {
	if r, w := utf8.DecodeRune(s[min(i, len(s)):]); isSpace(r) {
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
	end := len(dst)
	for end > start {
		r, w := utf8.DecodeLastRune(dst[start:end])
		if !isSpace(r) {
			break
		}
		end -= w
	}
	lead := 0
	for w := spaceAt(dst[:end], start); w > 0; w = spaceAt(dst[:end], start+lead) {
		lead += w
	}
	if lead > 0 {
		copy(dst[start:], dst[start+lead:end])
		end -= lead
	}
	return dst[:end]
}
