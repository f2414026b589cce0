package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/regular"
)

// maxVocabFile bounds the size of a vocabulary file; the largest published one has 1 MB.
const maxVocabFile = 256 << 20

// LoadVocabulary reads a vocabulary file: SCAN's JSON {"word2idx": {word: id}, "idx2word": {"id": word}, "idx": n}
// or the Python pickle of VSE++ and VSRN. Errors name the file and what is wrong in it.
func LoadVocabulary(path string) (*Vocabulary, error) {
	v, err := loadVocabulary(path)
	if err != nil {
		return nil, fmt.Errorf("vocabulary %s: %w", path, err)
	}
	return v, nil
}

func loadVocabulary(path string) (*Vocabulary, error) {
	b, err := regular.ReadFile(path, maxVocabFile, "a vocabulary")
	if err != nil {
		remedy := ""
		switch {
		case errors.Is(err, regular.ErrLarge):
			remedy = "; is this another file?"
		case !errors.Is(err, regular.ErrPointer):
			remedy = "; `vsetrain data vocab` writes one from the captions"
		}
		if pe, ok := err.(*fs.PathError); ok {
			err = pe.Err
		}
		return nil, fmt.Errorf("%w%s", err, remedy)
	}
	switch {
	case len(b) > 0 && (b[0] == 0x80 || b[0] == '(' || b[0] == 'c'):
		v, err := decodePickleVocab(b)
		return v, regular.Explain(err, path, regular.Pickle)
	}
	v, err := decodeVocab(b)
	return v, regular.Explain(err, path, regular.JSON)
}

// vocabFile is the JSON layout of the references.
type vocabFile struct {
	Word2Idx unique[int64]  `json:"word2idx"`
	Idx2Word unique[string] `json:"idx2word"`
	Idx      *int64         `json:"idx"`
}

// unique is a JSON object in which no key stands twice, as package json would overlook.
type unique[V any] map[string]V

// UnmarshalJSON implements json.Unmarshaler.
func (m *unique[V]) UnmarshalJSON(b []byte) error {
	if *m != nil {
		return errors.New("an object stands twice")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	switch t, err := d.Token(); {
	case err != nil:
		return err
	case t == nil: // null
		return nil
	case t != json.Delim('{'):
		return fmt.Errorf("found %v, expected an object", t)
	}
	*m = unique[V]{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		if _, twice := (*m)[key]; twice {
			return fmt.Errorf("%q stands twice", key)
		}
		var v V
		if err := d.Decode(&v); err != nil {
			return err
		}
		(*m)[key] = v
	}
	return nil
}

func decodeVocab(b []byte) (*Vocabulary, error) {
	var f vocabFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("not a vocabulary: %w; expected JSON with word2idx, idx2word and idx", err)
	}
	if f.Word2Idx == nil {
		return nil, fmt.Errorf("no word2idx; expected JSON with word2idx, idx2word and idx")
	}
	byID := make(map[int64]string, len(f.Idx2Word))
	for k, w := range f.Idx2Word {
		id, err := strconv.ParseInt(k, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("idx2word has the key %q; expected a number", k)
		}
		byID[id] = w
	}
	if f.Idx2Word == nil {
		byID = nil
	}
	n := int64(len(f.Word2Idx))
	if f.Idx != nil {
		n = *f.Idx
	}
	return fromMaps(f.Word2Idx, byID, n)
}

// fromMaps checks word2idx against idx2word (unless nil) and idx, and builds the vocabulary.
func fromMaps(word2idx map[string]int64, idx2word map[int64]string, idx int64) (*Vocabulary, error) {
	n := int64(len(word2idx))
	if idx != n {
		return nil, fmt.Errorf("idx is %d, but word2idx has %d words", idx, n)
	}
	if idx2word != nil && int64(len(idx2word)) != n {
		return nil, fmt.Errorf("idx2word has %d words, word2idx %d", len(idx2word), n)
	}
	words := make([]string, n)
	set := make([]bool, n)
	for _, w := range slices.Sorted(maps.Keys(word2idx)) { // the first error is the same at every reading
		id := word2idx[w]
		if id < 0 || id >= n {
			return nil, fmt.Errorf("word %q has the id %d; ids must be 0 to %d", w, id, n-1)
		}
		if set[id] {
			return nil, fmt.Errorf("words %q and %q share the id %d", words[id], w, id)
		}
		if back, ok := idx2word[id]; idx2word != nil && (!ok || back != w) {
			return nil, fmt.Errorf("word2idx gives %q the id %d, idx2word has %q there", w, id, back)
		}
		words[id], set[id] = w, true
	}
	return newVocabulary(words)
}

// Save writes the vocabulary as SCAN's JSON. The file appears complete or not at all.
func (v *Vocabulary) Save(path string) error { return save(path, v.encode) }

// Holds reports whether the file path holds this vocabulary; false where there is no file. A file that holds anything
// else is an error, which names both numbers of words.
func (v *Vocabulary) Holds(path string) (bool, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	old, err := LoadVocabulary(path)
	switch {
	case err != nil:
		return false, err
	case old.Hash() != v.Hash():
		return false, fmt.Errorf("vocabulary %s holds %d words; expected %d, with these ids", path, old.Len(), v.Len())
	}
	return true, nil
}

func save(path string, write func(io.Writer) error) error {
	if err := integrity.WriteFile(path, write); err != nil {
		return fmt.Errorf("vocabulary: %w", err)
	}
	return nil
}

// encode writes the members in id order, so that equal vocabularies give equal files.
func (v *Vocabulary) encode(w io.Writer) error {
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	sep := func(i int) string {
		if i == len(v.words)-1 {
			return ""
		}
		return ", "
	}
	io.WriteString(w, `{"word2idx": {`)
	for i, word := range v.words {
		fmt.Fprintf(w, "%s: %d%s", quote(word), i, sep(i))
	}
	io.WriteString(w, `}, "idx2word": {`)
	for i, word := range v.words {
		fmt.Fprintf(w, `"%d": %s%s`, i, quote(word), sep(i))
	}
	_, err := fmt.Fprintf(w, `}, "idx": %d}`+"\n", len(v.words))
	return err
}
