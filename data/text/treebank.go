package text

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Word tokenisation of one sentence: the Penn Treebank rules in the form that NLTK's word_tokenize applies, as
// passes over a byte buffer. Each pass is one rewriting rule, written from left to right without overlap; a pass
// whose trigger does not occur in the sentence is skipped.

// Triggers that occur in a sentence.
const (
	hasQuote = 1 << iota // '
	hasDouble
	hasBacktick
	hasHigh // a byte of a character outside ASCII
	hasPeriod
	hasComma   // , or :
	hasSymbol  // ; @ # $ % &
	hasClause  // ? !
	hasStar    // *
	hasBracket // ] [ ( ) { } < >
	hasDash    // -
)

var triggers = func() (t [256]uint16) {
	for chars, bit := range map[string]uint16{
		`'`: hasQuote, `"`: hasDouble, "`": hasBacktick, ".": hasPeriod, ",:": hasComma, ";@#$%&": hasSymbol,
		"?!": hasClause, "*": hasStar, "][(){}<>": hasBracket, "-": hasDash,
	} {
		for _, c := range []byte(chars) {
			t[c] = bit
		}
	}
	for c := utf8.RuneSelf; c < 256; c++ {
		t[c] = hasHigh
	}
	return t
}()

// rewriter holds the two buffers between which the passes go back and forth.
type rewriter struct{ text, spare []byte }

// do runs one pass.
func (w *rewriter) do(pass func(dst, src []byte) []byte) {
	w.text, w.spare = pass(w.spare[:0], w.text), w.text
}

// padClass puts blanks around each byte with a trigger of the class.
func (w *rewriter) padClass(class uint16) {
	dst := w.spare[:0]
	for _, c := range w.text {
		if triggers[c]&class != 0 {
			dst = append(dst, ' ', c, ' ')
		} else {
			dst = append(dst, c)
		}
	}
	w.text, w.spare = dst, w.text
}

// replace puts new for each old.
func (w *rewriter) replace(old, new string) {
	dst, src := w.spare[:0], w.text
	for {
		i := bytes.Index(src, []byte(old))
		if i < 0 {
			break
		}
		dst = append(append(dst, src[:i]...), new...)
		src = src[i+len(old):]
	}
	w.text, w.spare = append(dst, src...), w.text
}

// Rules for what few captions have.
var (
	openingMarks     = regexp.MustCompile("[«“‘„]|`+")
	closingMarks     = regexp.MustCompile(`[»”’]`)
	quotesAfterBlank = regexp.MustCompile(`([ (\[{<])("|'')`)
	ellipses         = regexp.MustCompile(`\.{2,}`)
	lateQuotes       = regexp.MustCompile(`([^'])' `)
)

// sub replaces each match of a rule.
func (w *rewriter) sub(rule *regexp.Regexp, by string) {
	if rule.Match(w.text) {
		w.text = append(w.spare[:0], rule.ReplaceAll(w.text, []byte(by))...)
		w.spare = nil
	}
}

// treebank rewrites a sentence so that white space separates its words; the result is in w.text.
func (w *rewriter) treebank(sentence []byte) {
	var has uint16
	for _, c := range sentence {
		has |= triggers[c]
	}
	w.text = append(w.text[:0], sentence...)
	if has&(hasDouble|hasBacktick|hasQuote|hasHigh) != 0 {
		w.openingQuotes(has)
	}
	if has&hasPeriod != 0 {
		w.do(finalStop)
	}
	if has&hasComma != 0 {
		w.do(commas)
	}
	if has&hasPeriod != 0 && bytes.Contains(w.text, []byte("..")) {
		w.sub(ellipses, " $0 ")
	}
	if has&hasSymbol != 0 {
		w.padClass(hasSymbol)
	}
	if has&hasClause != 0 {
		w.padClass(hasClause)
	}
	if has&hasQuote != 0 && bytes.Contains(w.text, []byte("' ")) {
		w.sub(lateQuotes, "$1 ' ")
	}
	if has&hasStar != 0 {
		w.padClass(hasStar)
	}
	if has&hasBracket != 0 {
		w.padClass(hasBracket)
	}
	if has&hasDash != 0 {
		w.replace("--", " -- ")
	}
	if has&(hasDouble|hasQuote|hasHigh) != 0 {
		w.closingQuotes(has)
	}
	w.contractions(has)
}

func (w *rewriter) openingQuotes(has uint16) {
	if has&(hasBacktick|hasHigh) != 0 {
		w.sub(openingMarks, " $0 ")
	}
	if len(w.text) > 0 && w.text[0] == '"' {
		w.do(func(dst, src []byte) []byte { return append(append(dst, "``"...), src[1:]...) })
		has |= hasBacktick
	}
	if has&hasBacktick != 0 {
		w.replace("``", " `` ")
	}
	if has&hasDouble != 0 || has&hasQuote != 0 && bytes.Contains(w.text, []byte("''")) {
		w.sub(quotesAfterBlank, "$1 `` ")
	}
	if has&hasQuote != 0 {
		w.do(quotedLetter)
	}
}

func (w *rewriter) closingQuotes(has uint16) {
	if has&hasHigh != 0 {
		w.sub(closingMarks, " $0 ")
	}
	if has&hasQuote != 0 {
		w.replace("''", " '' ")
	}
	if has&hasDouble != 0 {
		w.replace(`"`, " '' ")
	}
	if has&hasQuote != 0 {
		w.do(singleBlanks)
		w.do(func(dst, src []byte) []byte { return clitics(dst, src, shortClitics) })
		w.do(func(dst, src []byte) []byte { return clitics(dst, src, longClitics) })
	}
}

// quotedLetter: a quote before a one-letter word that is not a clitic gets a blank after it.
func quotedLetter(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		dst = append(dst, src[i])
		i++
		if src[i-1] != '\'' || !wordAt(src, i) || strings.IndexByte("mtsdn", src[i]) >= 0 {
			continue
		}
		if n := runeLen(src, i); !wordAt(src, i+n) {
			dst = append(append(dst, ' '), src[i:i+n]...)
			i += n
		}
	}
	return dst
}

// finalStop: ([^.])(\.)([])}>"'»”’ ]*)\s*$ -> "\1 \2 \3 ". The narrower rule that follows it in the reference can
// then change nothing but the number of blanks.
func finalStop(dst, src []byte) []byte {
	end := len(src)
	for end > 0 {
		r, n := utf8.DecodeLastRune(src[:end])
		if !strings.ContainsRune(`])}>"'»”’ `, r) {
			break
		}
		end -= n
	}
	if end < 2 || src[end-1] != '.' || src[end-2] == '.' {
		return append(dst, src...)
	}
	dst = append(append(dst, src[:end-1]...), " . "...)
	return append(append(dst, src[end:]...), ' ')
}

// commas: ([:,])([^\d]) -> " \1 \2", then ([:,])$ -> " \1 "
func commas(dst, src []byte) []byte {
	for i := 0; i < len(src); {
		c := src[i]
		i++
		switch {
		case c != ',' && c != ':':
			dst = append(dst, c)
		case i == len(src):
			dst = append(dst, ' ', c, ' ')
		case digitAt(src, i) > 0:
			dst = append(dst, c)
		default:
			n := runeLen(src, i)
			dst = append(append(dst, ' ', c, ' '), src[i:i+n]...)
			i += n
			if i == len(src) && (src[i-1] == ',' || src[i-1] == ':') {
				dst = append(dst[:len(dst)-1], ' ', src[i-1], ' ')
			}
		}
	}
	return dst
}

// singleBlanks: \s+ -> " ", with a blank at both ends
func singleBlanks(dst, src []byte) []byte {
	dst = append(dst, ' ')
	for i := 0; i < len(src); {
		if n := spaceAt(src, i); n > 0 {
			if dst[len(dst)-1] != ' ' {
				dst = append(dst, ' ')
			}
			i += n
			continue
		}
		dst = append(dst, src[i])
		i++
	}
	if dst[len(dst)-1] != ' ' {
		dst = append(dst, ' ')
	}
	return dst
}

var (
	shortClitics = [][]byte{[]byte("'s "), []byte("'m "), []byte("'d "), []byte("' ")}
	longClitics  = [][]byte{[]byte("'ll "), []byte("'re "), []byte("'ve "), []byte("n't ")}
)

// clitics: ([^' ])(clitic)(blank) -> "\1 \2 "
func clitics(dst, src []byte, list [][]byte) []byte {
	for i := 0; i < len(src); {
		c := src[i]
		dst = append(dst, c)
		i++
		if c == '\'' || c == ' ' || i == len(src) || src[i] != '\'' && src[i] != 'n' {
			continue
		}
		for _, clitic := range list {
			if bytes.HasPrefix(src[i:], clitic) {
				dst = append(append(dst, ' '), clitic...)
				i += len(clitic)
				break
			}
		}
	}
	return dst
}
