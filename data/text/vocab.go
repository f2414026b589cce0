package text

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
)

// The special words and their ids in all vocabularies of the references.
const (
	PadWord, StartWord, EndWord, UnkWord = "<pad>", "<start>", "<end>", "<unk>"

	Pad, Start, End, Unk int32 = 0, 1, 2, 3
)

var special = [...]string{PadWord, StartWord, EndWord, UnkWord}

// DefaultThreshold is the number of occurrences from which the references keep a word.
const DefaultThreshold = 4

// Vocabulary maps words to ids 0..Len-1. It does not change once made and is safe for concurrent use.
type Vocabulary struct {
	ids   map[string]int32
	words []string
}

// newVocabulary checks that the words are distinct and begin with the special words.
func newVocabulary(words []string) (*Vocabulary, error) {
	v := &Vocabulary{ids: make(map[string]int32, len(words)), words: words}
	for i, w := range special {
		if i >= len(words) || words[i] != w {
			found := "no word"
			if i < len(words) {
				found = fmt.Sprintf("%.40q", words[i])
			}
			return nil, fmt.Errorf("id %d must be %s, found %s: a vocabulary starts with <pad>, <start>, <end>, "+
				"<unk>, as the references write it; `vsetrain data vocab` writes one from the captions", i, w, found)
		}
	}
	for i, w := range words {
		if j, twice := v.ids[w]; twice {
			return nil, fmt.Errorf("word %q has two ids, %d and %d", w, j, i)
		}
		v.ids[w] = int32(i)
	}
	return v, nil
}

// BuildVocabulary makes a vocabulary of the words that occur at least threshold times in the captions. After the
// special words, ids are in the order of first occurrence, so the same captions give the same ids.
func BuildVocabulary(captions iter.Seq[string], threshold int) (*Vocabulary, error) {
	if threshold < 1 {
		return nil, fmt.Errorf("vocabulary: threshold %d; a word must occur at least once", threshold)
	}
	var t WordSplitter
	index := map[string]int{} // word -> index in order
	var order []string
	var count []int
	n := 0
	for c := range captions {
		n++
		for _, w := range t.Words(c) {
			i, known := index[string(w)]
			if !known {
				i = len(order)
				index[string(w)] = i
				order, count = append(order, string(w)), append(count, 0)
			}
			count[i]++
		}
	}
	words := slices.Clone(special[:])
	for i, w := range order {
		if count[i] >= threshold && !slices.Contains(special[:], w) {
			words = append(words, w)
		}
	}
	if len(words) == len(special) {
		return nil, fmt.Errorf("vocabulary: no word occurs %d times or more in %d captions, which have %d different "+
			"words; spaces and punctuation separate words: separate them if a language has no spaces, or lower "+
			"--threshold", threshold, n, len(order))
	}
	return newVocabulary(words)
}

// Len returns the number of ids; an additional <mask> word would have this id.
func (v *Vocabulary) Len() int { return len(v.words) }

// MaskWord stands for a word that augmentation hides.
const MaskWord = "<mask>"

// WithoutMask returns the vocabulary without a last word <mask>.
func (v *Vocabulary) WithoutMask() *Vocabulary {
	last := len(v.words) - 1
	if v.words[last] != MaskWord {
		return v
	}
	ids := maps.Clone(v.ids)
	delete(ids, MaskWord)
	return &Vocabulary{ids, v.words[:last:last]}
}

// Word returns the word of an id; "" if there is none.
func (v *Vocabulary) Word(id int32) string {
	if id < 0 || int(id) >= len(v.words) {
		return ""
	}
	return v.words[id]
}

// AppendCaption appends the ids of a caption to dst, from <start> to <end>, and returns also how many of its words are
// unknown. It allocates nothing once t and dst have grown.
func (v *Vocabulary) AppendCaption(dst []int32, t *WordSplitter, caption string) (ids []int32, unknown int) {
	dst = append(dst, Start)
	for _, w := range t.Words(caption) {
		id, known := v.ids[string(w)]
		if !known {
			id = Unk
			unknown++
		}
		dst = append(dst, id)
	}
	return append(dst, End), unknown
}

// Hash returns a hash of the words with their ids. Checkpoints store it, because word embeddings belong to one
// vocabulary.
func (v *Vocabulary) Hash() string {
	h := sha256.New()
	for _, w := range v.words {
		io.WriteString(h, w)
		h.Write([]byte{'\n'})
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// FillCaptionLabels writes the targets of VSRN's captioning branch for the word ids of a caption (without <start> and
// <end>) to labels and mask, maxLen+1 elements each, at least 3: labels = <start>, words, <end>, zero padded. A
// sequence longer than maxLen-1 keeps its first maxLen ids, and <end> overwrites the last. mask is 1 up to and
// including the first <pad>, which is a target, too (VSRN, dataset preprocessing and misc/utils.py).
func FillCaptionLabels(labels, mask, words []int32) {
	maxLen := len(labels) - 1
	clear(labels)
	clear(mask)
	labels[0] = Start
	n := 1 + copy(labels[1:maxLen], words)
	if n < len(words)+1 || n == maxLen {
		n = maxLen - 1
	}
	labels[n] = End
	for z := 0; z <= n+1; z++ {
		mask[z] = 1
	}
}
