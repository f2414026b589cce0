package text

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The basic tokeniser of BERT (google-research/bert, tokenization.py, BasicTokenizer; Hugging Face's BasicTokenizer)
// leaves out control characters and invalid bytes. White space separates words, and every punctuation mark is a word.
// Normalizer decides about letters.

// Normalizer says how a BERT normalises the letters of a text.
type Normalizer struct {
	Lowercase    bool // convert to lower case
	StripAccents bool // remove accents: Unicode NFD without nonspacing marks, in place of NFC
	Chinese      bool // every Chinese character is its own word
}

// uncased is the normaliser of bert-base-uncased.
var uncased = Normalizer{Lowercase: true, StripAccents: true, Chinese: true}

// basic is the memory of the tokeniser: the words of one text, one after the other.
type basic struct {
	normal []byte
	words  []byte
	ends   []int // where each word ends in words
}

// split finds the words of a text.
func (b *basic) split(s string, n Normalizer) {
	b.words, b.ends = b.words[:0], b.ends[:0]
	switch { // what is not UTF-8 is left out; norm would leave what follows as it is
	case isASCII(s):
		b.normal = append(b.normal[:0], s...)
	case n.StripAccents:
		b.normal = norm.NFD.AppendString(b.normal[:0], strings.ToValidUTF8(s, ""))
	default:
		b.normal = norm.NFC.AppendString(b.normal[:0], strings.Map(withoutControl, strings.ToValidUTF8(s, "")))
	}
	for rest := b.normal; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			b.end()
		case r < utf8.RuneSelf:
			b.ascii(byte(r), n.Lowercase)
		case r == utf8.RuneError || unicode.In(r, unicode.C) || n.StripAccents && unicode.In(r, unicode.Mn):
		case unicode.In(r, unicode.Z):
			b.end()
		case n.Chinese && isChinese(r) || unicode.In(r, unicode.P):
			b.alone(r)
		case n.Lowercase && r == 'İ': // the only letter of two in lower case
			b.words = append(b.words, "i\u0307"...)
		case n.Lowercase:
			b.words = utf8.AppendRune(b.words, unicode.ToLower(r))
		default:
			b.words = utf8.AppendRune(b.words, r)
		}
	}
	b.end()
}

// withoutControl removes control characters, which may separate letters from their accents.
func withoutControl(r rune) rune {
	if r == '\t' || r == '\n' || r == '\r' || !unicode.In(r, unicode.C) {
		return r
	}
	return -1
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (b *basic) ascii(c byte, lower bool) {
	switch {
	case c < ' ' || c == 0x7f: // control
	case c >= 'A' && c <= 'Z':
		if lower {
			c += 'a' - 'A'
		}
		b.words = append(b.words, c)
	case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
		b.words = append(b.words, c)
	default: // symbols such as $ and ^ count as punctuation
		b.alone(rune(c))
	}
}

// end ends the current word if there is one.
func (b *basic) end() {
	if n := len(b.ends); len(b.words) > 0 && (n == 0 || b.ends[n-1] < len(b.words)) {
		b.ends = append(b.ends, len(b.words))
	}
}

func (b *basic) alone(r rune) {
	b.end()
	b.words = utf8.AppendRune(b.words, r)
	b.end()
}

// word returns word i; it is valid until the next split.
func (b *basic) word(i int) []byte {
	if i == 0 {
		return b.words[:b.ends[0]]
	}
	return b.words[b.ends[i-1]:b.ends[i]]
}

// isChinese reports whether r is in one of the blocks of ideographs that BERT separates. Japanese syllables and Korean
// are not among them.
func isChinese(r rune) bool {
	switch {
	case r >= 0x4E00 && r <= 0x9FFF, r >= 0x3400 && r <= 0x4DBF, r >= 0xF900 && r <= 0xFAFF,
		r >= 0x20000 && r <= 0x2A6DF, r >= 0x2A700 && r <= 0x2CEAF, r >= 0x2F800 && r <= 0x2FA1F:
		return true
	}
	return false
}
