package text

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Sentence splitting: the Punkt algorithm (Kiss and Strunk, Unsupervised multilingual sentence boundary detection,
// Computational Linguistics 32, 2006) with NLTK's English model, reduced to lower-case text.
//
// A candidate is one of . ? ! before white space and another word, or before closing punctuation. Its context, the
// word before it up to the word after it, is cut into Punkt tokens; the candidate ends a sentence when a token of
// the context that is not the last one does:
//
//	"?" "!" "."                                     yes
//	a word with a final period                      yes, unless an abbreviation, a listed pair with the next word,
//	                                                or an initial or number before a lower-case word or punctuation
//	".." and longer                                 no
//
// Left out: the orthographic table of the model, which decides only for capitalised words and for a few words that
// its training text began sentences with in lower case.

//go:embed punkt_english.json
var punktEnglish []byte

var abbreviations, collocations = loadPunkt(punktEnglish)

// loadPunkt reads the lists of abbreviations (without final period) and of collocations ("first next").
func loadPunkt(b []byte) (abbr, colloc map[string]bool) {
	var lists struct{ Abbreviations, Collocations []string }
	if err := json.Unmarshal(b, &lists); err != nil {
		panic("text: embedded punkt lists: " + err.Error())
	}
	set := func(list []string) map[string]bool {
		m := make(map[string]bool, len(list))
		for _, w := range list {
			m[w] = true
		}
		return m
	}
	return set(lists.Abbreviations), set(lists.Collocations)
}

const number = "##number##" // stands for every numeric token in the collocations

type span struct{ lo, hi int }

// nonWord holds the punctuation that ends a Punkt word.
func nonWord(c byte) bool { return strings.IndexByte(`)";}]*:@'({[!?`, c) >= 0 }

func endChar(c byte) bool { return c == '.' || c == '?' || c == '!' }

// candidate finds the first candidate at or after i: its position, the end of what follows it, and the start of
// the following word (-1 when punctuation follows).
func candidate(s []byte, i int) (at, end, next int) {
	for ; i+1 < len(s); i++ {
		if !endChar(s[i]) {
			continue
		}
		if nonWord(s[i+1]) {
			return i, i + 2, -1
		}
		j := i + 1
		for w := spaceAt(s, j); w > 0; w = spaceAt(s, j) {
			j += w
		}
		if j == i+1 || j == len(s) {
			continue
		}
		for end = j; end < len(s) && spaceAt(s, end) == 0; {
			end += runeLen(s, end)
		}
		return i, end, j
	}
	return -1, 0, 0
}

// sentences appends to dst the spans of the sentences of s.
func sentences(dst []span, s []byte) []span {
	first := len(dst)
	start := 0 // of the sentence
	// A candidate is judged once it is known that the next one's word does not overlap with its own.
	var word span // of the pending candidate
	at, end, next := -1, 0, 0
	judge := func() {
		if at >= 0 && breaks(s[word.lo:end]) {
			dst = append(dst, span{start, at + 1})
			start = at + 1
			if next >= 0 {
				start = next
			}
		}
	}
	for i := 0; ; {
		a, e, n := candidate(s, i)
		if a < 0 {
			break
		}
		lo := word.lo
		if k := bytes.LastIndexAny(s[word.hi:a], " \t\n\r\v\f"); k > 0 {
			lo = word.hi + k + 1
		}
		if word.hi <= lo {
			judge()
		}
		word, at, end, next = span{lo, a}, a, e, n
		i = a + 1
	}
	judge()
	dst = append(dst, span{start, len(s)})
	return append(dst[:first], realign(dst[first:], s)...)
}

// realign moves closing quotes and brackets at the start of a sentence to the end of the previous one, in place.
func realign(spans []span, s []byte) []span {
	out := spans[:0]
	moved := 0
	for i, p := range spans {
		p.lo += moved
		moved = 0
		if i+1 < len(spans) {
			q := spans[i+1]
			closers, width := closing(s[q.lo:q.hi])
			if closers > 0 {
				out, moved = append(out, span{p.lo, q.lo + closers}), width
				continue
			}
		}
		if p.lo < p.hi {
			out = append(out, p)
		}
	}
	return out
}

// closing returns the length of the closing punctuation at the start of s, and its length with the white space after
// it; 0 if anything but white space or a dash follows.
func closing(s []byte) (closers, width int) {
	for closers < len(s) && strings.IndexByte(`"')]}`, s[closers]) >= 0 {
		closers++
	}
	width = closers
	for w := spaceAt(s, width); w > 0; w = spaceAt(s, width) {
		width += w
	}
	if width == closers && closers < len(s) && !bytes.HasPrefix(s[closers:], []byte("--")) {
		return 0, 0
	}
	return closers, width
}

// breaks reports whether a token of the context, other than the last, ends a sentence.
func breaks(context []byte) bool {
	var prev []byte
	for i := 0; i < len(context); {
		if w := spaceAt(context, i); w > 0 {
			i += w
			continue
		}
		end := punktToken(context, i)
		tok := context[i:end]
		if prev != nil && endsSentence(prev, tok) {
			return true
		}
		prev, i = tok, end
	}
	return false
}

// endsSentence decides about a token from its form and the next token.
func endsSentence(tok, next []byte) bool {
	if !strong(tok) && !allDots(tok) && !finalPeriod(tok) {
		return false
	}
	if tok[len(tok)-1] != '.' {
		return true // ? or !
	}
	numeric := isNumeric(tok)
	typ := number
	if !numeric {
		typ = string(tok)
		if len(tok) > 1 {
			typ = typ[:len(typ)-1]
		}
	}
	if collocations[typ+" "+nextType(next)] {
		return false
	}
	if (isInitial(tok) || numeric) && (isPunctuation(next) || startsLower(next)) {
		return false
	}
	return firstPass(tok)
}

// firstPass decides from the form of the token alone.
func firstPass(tok []byte) bool {
	return strong(tok) || !allDots(tok) && finalPeriod(tok) && !abbreviated(tok)
}

func strong(tok []byte) bool { return len(tok) == 1 && endChar(tok[0]) }

func finalPeriod(tok []byte) bool {
	return tok[len(tok)-1] == '.' && !bytes.HasSuffix(tok, []byte(".."))
}

func allDots(tok []byte) bool {
	return len(tok) > 1 && len(bytes.TrimLeft(tok, ".")) == 0
}

func abbreviated(tok []byte) bool {
	w := tok[:len(tok)-1]
	return abbreviations[string(w)] || abbreviations[string(w[bytes.LastIndexByte(w, '-')+1:])]
}

// nextType is the form of a following token in the collocations.
func nextType(tok []byte) string {
	if isNumeric(tok) {
		return number
	}
	if len(tok) > 1 && tok[len(tok)-1] == '.' && firstPass(tok) {
		tok = tok[:len(tok)-1]
	}
	return string(tok)
}

func isInitial(tok []byte) bool {
	r, w := utf8.DecodeRune(tok)
	return len(tok) == w+1 && tok[w] == '.' && isWord(r) && !unicode.IsDigit(r)
}

// isNumeric matches -?[.,]?\d[\d,.-]*
func isNumeric(tok []byte) bool {
	i := 0
	if tok[0] == '-' {
		i++
	}
	if i < len(tok) && (tok[i] == '.' || tok[i] == ',') {
		i++
	}
	w := digitAt(tok, i)
	if w == 0 {
		return false
	}
	for i += w; i < len(tok); i += w {
		if w = digitAt(tok, i); w == 0 {
			if strings.IndexByte(",.-", tok[i]) < 0 {
				return false
			}
			w = 1
		}
	}
	return true
}

func isPunctuation(tok []byte) bool { return len(tok) == 1 && strings.IndexByte(";:,.!?", tok[0]) >= 0 }

func startsLower(tok []byte) bool {
	r, _ := utf8.DecodeRune(tok)
	return unicode.IsLower(r) || unicode.Is(unicode.Other_Lowercase, r)
}

// punktToken returns the end of the Punkt token that starts at s[i], which is not white space: a run of dashes or
// dots, ". . .", a word up to punctuation that cannot be inside one, or one character.
func punktToken(s []byte, i int) int {
	if end := multiChar(s, i); end > i {
		return end
	}
	if strings.IndexByte("(\"`{[:;&#*@)}]-,", s[i]) >= 0 {
		return i + 1
	}
	for j := i + runeLen(s, i); ; j += runeLen(s, j) {
		if wordEnd(s, j) || s[j] == ',' && wordEnd(s, j+1) {
			return j
		}
	}
}

func wordEnd(s []byte, j int) bool {
	return j >= len(s) || spaceAt(s, j) > 0 || nonWord(s[j]) || multiChar(s, j) > j
}

// multiChar returns the end of -{2,} or \.{2,} or (\.\s){2,}\. at s[i], i when there is none.
func multiChar(s []byte, i int) int {
	c := s[i]
	if c != '-' && c != '.' {
		return i
	}
	j := i
	for j < len(s) && s[j] == c {
		j++
	}
	if j-i >= 2 {
		return j
	}
	if c == '-' {
		return i
	}
	periods, end := 1, i+1
	for {
		w := spaceAt(s, end)
		if w == 0 || end+w >= len(s) || s[end+w] != '.' {
			break
		}
		end += w + 1
		periods++
	}
	if periods >= 3 {
		return end
	}
	return i
}
