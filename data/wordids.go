package data

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"vsetrain/data/text"
)

const wordIDsEnd = "_precaps_stan.txt"

// openWordIDs reads the word ids if there are any and the options ask for them.
func openWordIDs(s *Split, o *OpenOptions) error {
	if !o.WordIDs || s.captions == nil {
		return nil
	}
	lines, err := s.lines(wordIDsEnd, "word ids")
	if lines == nil {
		return err
	}
	if lines.len() != s.layout.captions {
		return fmt.Errorf("%s: word ids of %d captions, but %s has %d", lines.path, lines.len(), s.captions.path,
			s.layout.captions)
	}
	w := &wordIDs{path: lines.path, first: []int32{0}}
	for i := range lines.len() {
		from := len(w.ids)
		w.ids = append(w.ids, text.Start)
		for _, f := range strings.Split(lines.line(i), ",") {
			id, err := strconv.ParseInt(strings.TrimSpace(f), 10, 32)
			if err != nil || id < 0 {
				return fmt.Errorf("%s: %q; expected word ids separated by commas", at(lines, i), f)
			}
			if len(w.ids) == from+1 && int32(id) == text.Start {
				continue
			}
			w.ids = append(w.ids, int32(id))
			if int32(id) > w.largest {
				w.largest, w.line = int32(id), i+1
			}
		}
		if w.ids[len(w.ids)-1] != text.End {
			w.ids = append(w.ids, text.End)
		}
		if len(w.ids) > math.MaxInt32 {
			return fmt.Errorf("%s: more than 2^31 words", at(lines, i))
		}
		w.first = append(w.first, int32(len(w.ids)))
	}
	s.words = w
	return nil
}

// fits checks that a tokenizer has all stored word ids.
func (s *Split) fits(v text.Tokenizer) error {
	if w := s.words; w != nil && int(w.largest) >= v.Len() {
		return fmt.Errorf("data: %s:%d: word id %d, but the vocabulary has %d words; name the vocabulary the ids "+
			"belong to", w.path, w.line, w.largest, v.Len())
	}
	return nil
}

// OddDependencies returns an error that says how many of a sample of 1,000 captions have dependencies on words that
// they do not have. It is nil if there are none. Training leaves such dependencies out.
func OddDependencies(s *Split, v text.Tokenizer) error {
	if s.dependencies == nil {
		return nil
	}
	var ids []int32
	var first error
	coder, odd, sample := v.NewEncoder(), 0, min(s.n, 1000)
	for k := range sample {
		words, i := 0, k*s.n/sample
		ids, _, words, _ = s.wordsOf(ids[:0], coder, i)
		if err := s.dependencies.check(i, words); err != nil {
			odd++
			first = cmp.Or(first, err)
		}
	}
	if odd == 0 {
		return nil
	}
	return fmt.Errorf("%w; %d of %d captions have such pairs, which training leaves out; are these the trees of other "+
		"captions? `vsetrain data check %s` counts all", first, odd, sample, s.dir)
}

// CoverageOf counts the words of the captions, or the word ids stored in their place, and the ones that a tokenizer
// lacks.
func CoverageOf(s *Split, l text.Tokenizer) (c text.Coverage) {
	coder, ids := l.NewEncoder(), []int32(nil)
	for i := range s.n {
		var words, unknown int
		ids, _, words, unknown = s.wordsOf(ids[:0], coder, i)
		c.Add(words, unknown)
	}
	return c
}

// wordsOf returns the word ids of a caption, start and end included. If the split stores them, they are the stored ids;
// otherwise they are appended to dst. words is the number of words, unknown how many of them the tokenizer lacks.
func (s *Split) wordsOf(dst []int32, c text.Encoder, caption int) (to, ids []int32, words, unknown int) {
	w := s.words
	if w == nil {
		to, words, unknown = c.Append(dst, s.Caption(caption))
		return to, to[len(dst):], words, unknown
	}
	stored := w.ids[w.first[caption]:w.first[caption+1]]
	for _, id := range stored {
		if id == text.Unk {
			unknown++
		}
	}
	return dst, stored, len(stored) - 2, unknown
}
