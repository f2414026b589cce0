package text

// WordSplitter splits captions into words as NLTK's word_tokenize does: first into sentences, then into words. It
// reuses its memory and is not safe for concurrent use. The zero value is ready to use.
type WordSplitter struct {
	lower []byte
	spans []span
	rw    rewriter
	out   []byte
	ends  []span
	words [][]byte
}

// Words returns the words of a caption, lower-cased. They are valid until the next call.
func (t *WordSplitter) Words(caption string) [][]byte {
	t.lower = appendLower(t.lower[:0], caption)
	t.spans = sentences(t.spans[:0], t.lower)
	t.out, t.ends = t.out[:0], t.ends[:0]
	for _, s := range t.spans {
		t.rw.treebank(t.lower[s.lo:s.hi])
		t.split()
	}
	t.words = t.words[:0]
	for _, e := range t.ends {
		t.words = append(t.words, t.out[e.lo:e.hi])
	}
	return t.words
}

// split appends the words of the rewritten sentence.
func (t *WordSplitter) split() {
	src, base := t.rw.text, len(t.out)
	t.out = append(t.out, src...)
	start := -1
	for i := 0; i < len(src); {
		w := spaceAt(src, i)
		if w == 0 {
			if start < 0 {
				start = i
			}
			i++
			for i < len(src) && src[i]&0xc0 == 0x80 {
				i++ // inside a character
			}
			continue
		}
		if start >= 0 {
			t.ends = append(t.ends, span{base + start, base + i})
			start = -1
		}
		i += w
	}
	if start >= 0 {
		t.ends = append(t.ends, span{base + start, base + len(src)})
	}
}
