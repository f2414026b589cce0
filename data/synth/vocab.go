package synth

import (
	"encoding/json"
	"strconv"

	"vsetrain/internal/files/atomicfile"
)

// counter counts tokens in the order in which they first occur.
type counter struct {
	words []string
	count map[string]int
}

func (c *counter) add(word string) {
	if c.count[word]++; c.count[word] == 1 {
		c.words = append(c.words, word)
	}
}

// minCount is the number of occurrences in train and dev from which a word enters the vocabulary.
const minCount = 4

// vocabulary is SCAN's JSON form: word -> id, id -> word, and the next free id.
type vocabulary struct {
	Word2Idx map[string]int    `json:"word2idx"`
	Idx2Word map[string]string `json:"idx2word"`
	Idx      int               `json:"idx"`
}

func (c *counter) vocabulary() vocabulary {
	v := vocabulary{map[string]int{}, map[string]string{}, 0}
	put := func(w string) {
		v.Word2Idx[w] = v.Idx
		v.Idx2Word[strconv.Itoa(v.Idx)] = w
		v.Idx++
	}
	for _, w := range []string{"<pad>", "<start>", "<end>", "<unk>"} {
		put(w)
	}
	for _, w := range c.words {
		if c.count[w] >= minCount {
			put(w)
		}
	}
	return v
}

func writeJSON(path string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(path, atomicfile.Bytes(append(b, '\n')))
}
