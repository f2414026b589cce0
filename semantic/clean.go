package semantic

import (
	_ "embed"
	"strings"
)

// The stop lists are NLTK's English list (2022, 179 words), applied to words, and scikit-learn's built-in English list
// (318 words), applied to stems.
var (
	//go:embed stopwords_nltk.txt
	nltkList string
	//go:embed stopwords_sklearn.txt
	sklearnList string

	nltkStop    = wordSet(nltkList)
	sklearnStop = wordSet(sklearnList)
)

func wordSet(list string) map[string]bool {
	set := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		set[w] = true
	}
	return set
}

// wordByte maps a byte of a caption to a byte of a word: letters to lower case, # to itself, everything else to 0.
// Bytes of characters outside ASCII separate words, like other characters that are not letters.
func wordByte(c byte) byte {
	switch {
	case 'a' <= c && c <= 'z', c == '#':
		return c
	case 'A' <= c && c <= 'Z':
		return c + ('a' - 'A')
	}
	return 0
}

// nextWord copies the next word of line from a position on into buf. It returns the word and the position after it; the
// word is empty at the end of the line.
func nextWord(line string, from int, buf []byte) ([]byte, int) {
	buf = buf[:0]
	for ; from < len(line); from++ {
		if c := wordByte(line[from]); c != 0 {
			buf = append(buf, c)
		} else if len(buf) > 0 {
			break
		}
	}
	return buf, from
}

// Terms returns the terms of a caption in order: the stems of its words without English stop words, split at #, without
// pieces of one letter and without stems in scikit-learn's stop list.
func Terms(line string) []string {
	terms := []string{}
	var buf []byte
	for at := 0; ; {
		if buf, at = nextWord(line, at, buf); len(buf) == 0 {
			return terms
		}
		terms = appendTerms(terms, string(buf))
	}
}

// appendTerms appends the terms of one word: usually one or none, more where the stem contains #.
func appendTerms(terms []string, word string) []string {
	if nltkStop[word] {
		return terms
	}
	for t := range strings.SplitSeq(stem(word), "#") {
		if len(t) > 1 && !sklearnStop[t] {
			terms = append(terms, t)
		}
	}
	return terms
}
