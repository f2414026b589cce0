package synth

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// sentence is a caption under construction: its tokens and, for every token, its governor in the dependency tree.
// Tokens count from 0 here. The files count from 1, and 0 is the root (GSMN's files: [governor, dependent]).
type sentence struct {
	words []string
	head  []int // governor of each token, -1 for the root and for tokens not yet attached
}

// reset empties the sentence for the next caption.
func (s *sentence) reset() { s.words, s.head = s.words[:0], s.head[:0] }

// add appends a token and returns its index.
func (s *sentence) add(word string) int {
	s.words = append(s.words, word)
	s.head = append(s.head, -1)
	return len(s.words) - 1
}

// under appends a token governed by gov.
func (s *sentence) under(gov int, word string) int {
	i := s.add(word)
	s.link(gov, i)
	return i
}

// phrase appends the words of a fixed expression. Its last word governs the others and is returned.
func (s *sentence) phrase(text string) int {
	first := len(s.words)
	for _, w := range strings.Fields(strings.ReplaceAll(text, "_", " ")) {
		s.add(w)
	}
	last := len(s.words) - 1
	for i := first; i < last; i++ {
		s.head[i] = last
	}
	return last
}

// link makes gov the governor of deps. A negative index is ignored, so optional parts need no test.
func (s *sentence) link(gov int, deps ...int) {
	for _, dep := range deps {
		if gov >= 0 && dep >= 0 {
			s.head[dep] = gov
		}
	}
}

// finish attaches the remaining tokens to the root, changes "a" to "an" before vowels, and appends a period if wanted.
func (s *sentence) finish(root int, period bool) {
	if period {
		s.add(".")
	}
	for i, w := range s.words {
		if s.head[i] < 0 && i != root {
			s.head[i] = root
		}
		if w == "a" && i+1 < len(s.words) && startsWithVowelSound(s.words[i+1]) {
			s.words[i] = "an"
		}
	}
	s.head[root] = -1
}

func startsWithVowelSound(w string) bool { return vowel(w[0]) && !strings.HasPrefix(w, "uni") }

// text returns the caption as people type it: capitalised, without spaces before punctuation.
func (s *sentence) text() string {
	var b strings.Builder
	for i, w := range s.words {
		if i > 0 && w != "." && w != "," {
			b.WriteByte(' ')
		}
		if i == 0 {
			r, size := utf8.DecodeRuneInString(w)
			w = string(unicode.ToUpper(r)) + w[size:]
		}
		b.WriteString(w)
	}
	return b.String()
}

// pairs returns the dependency pairs [governor, dependent] counted from 1, the root pair [0, root] first, then by
// dependent.
func (s *sentence) pairs() [][2]int {
	p := make([][2]int, 1, len(s.words))
	for i, h := range s.head {
		if h < 0 {
			p[0] = [2]int{0, i + 1}
			continue
		}
		p = append(p, [2]int{h + 1, i + 1})
	}
	return p
}
