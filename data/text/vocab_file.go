package text

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/jsontext"
	"vsetrain/internal/files/pickle"
	"vsetrain/internal/files/regular"
)

// maxVocabFile bounds the size of a vocabulary file; the largest published one has 1 MB.
const maxVocabFile = 256 << 20

// LoadVocabulary reads a vocabulary file, JSON or a Python pickle of words with their ids: SCAN's {"word2idx": {word:
// id}, "idx2word": {"id": word}, "idx": n}, or another form with the same content (vocabularyOf). Errors name the file.
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
	case bytes.HasPrefix(b, []byte("[PAD]")):
		return nil, errors.New("these are word pieces of a BERT; expected the vocabulary of a network with a GRU")
	case len(b) > 0 && (b[0] == 0x80 || strings.IndexByte("(c}]", b[0]) >= 0):
		v, err := decodePickleVocab(b)
		return v, regular.Explain(err, path, regular.Pickle)
	}
	v, err := decodeVocab(b)
	return v, regular.Explain(err, path, regular.JSON)
}

// decodeVocab reads a vocabulary in JSON.
func decodeVocab(b []byte) (*Vocabulary, error) {
	d := json.NewDecoder(jsontext.Reader(bytes.NewReader(b)))
	d.UseNumber()
	value, err := decodeJSON(d, 0)
	if _, more := d.Token(); err == nil && !errors.Is(more, io.EOF) {
		err = errors.New("something follows its end")
	}
	if err != nil {
		return nil, fmt.Errorf("not a vocabulary: %w; expected JSON with word2idx, idx2word and idx", err)
	}
	return vocabularyOf(value)
}

// decodeJSON decodes a JSON value to the types of package pickle. A number without a fraction is an int.
func decodeJSON(d *json.Decoder, depth int) (any, error) {
	const deepest = 8
	t, err := d.Token()
	if err != nil || depth > deepest {
		return nil, cmp.Or(err, errors.New("nested too deep"))
	}
	switch v := t.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		f, err := v.Float64()
		if n := int64(f); float64(n) == f && n < 1<<53 && n > -1<<53 {
			return n, err
		}
		return f, err
	case json.Delim:
		list, dict := &pickle.List{}, &pickle.Dict{}
		for d.More() {
			var key any
			if v == '{' {
				if key, err = d.Token(); err != nil {
					return nil, err
				}
			}
			x, err := decodeJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			if list.Items = append(list.Items, x); v == '{' {
				dict.Set(key, x)
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		if v == '{' {
			return dict, nil
		}
		return list, nil
	}
	return t, nil
}

// Names of the two directions of a vocabulary in files.
var (
	toID   = []string{"word2idx", "stoi", "word_to_ix", "wtoi", "word2id"}
	toWord = []string{"idx2word", "itos", "ix_to_word", "itow", "id2word"}
)

// vocabularyOf makes a vocabulary of the content of a file: words to ids, ids to words, or both, which must agree, in a
// dict or the attributes of an object of any class; or a dict of words to ids; or a list of words.
func vocabularyOf(value any) (*Vocabulary, error) {
	if _, isList := pickle.Items(value); isList {
		return fromValues(nil, value, nil)
	}
	d, ok := value.(*pickle.Dict)
	if o, isObject := value.(*pickle.Object); isObject {
		d, ok = &o.Attrs, true
	}
	if !ok {
		return nil, fmt.Errorf("it holds a %s; expected word2idx, idx2word and idx", pickle.TypeName(value))
	}
	first := func(names []string) any {
		for _, name := range names {
			if v, ok := d.Get(name); ok && v != nil {
				return v
			}
		}
		return nil
	}
	ids, words := first(toID), first(toWord)
	n, _ := d.Get("idx")
	if ids == nil && words == nil {
		var names []string
		numbers := d.Len() > 0
		for k, v := range d.All() {
			name, _ := pickle.Text(k)
			names = append(names, fmt.Sprintf("%.40q", name))
			_, isNumber := v.(int64)
			numbers = numbers && isNumber
		}
		if !numbers {
			found := strings.Join(names[:min(len(names), 6)], ", ")
			return nil, fmt.Errorf("no word2idx in it, but %s; expected word2idx, idx2word and idx, a dict of words "+
				"and their ids, or a list of words", cmp.Or(found, "nothing"))
		}
		ids, n = d, nil
	}
	return fromValues(ids, words, n)
}

// fromValues makes a vocabulary of words to ids, ids to words and their number, each of which may be nil.
func fromValues(ids, words, n any) (*Vocabulary, error) {
	byID := map[int64]string(nil)
	if words != nil {
		list, err := numbered(words, "idx2word")
		if err != nil {
			return nil, err
		}
		byID = make(map[int64]string, len(list))
		for _, e := range list {
			byID[e.id] = e.word
		}
	}
	list, err := numbered(cmp.Or(ids, words), "word2idx")
	if err != nil {
		return nil, err
	}
	byWord := make(map[string]int64, len(list))
	for _, e := range list {
		if id, twice := byWord[e.word]; twice {
			return nil, fmt.Errorf("word %q has two ids, %d and %d", e.word, id, e.id)
		}
		byWord[e.word] = e.id
	}
	number, ok := n.(int64)
	switch {
	case n == nil:
		number = int64(len(byWord))
	case !ok:
		return nil, fmt.Errorf("its idx is a %s; expected an int", pickle.TypeName(n))
	}
	return fromMaps(byWord, byID, number)
}

type numberedWord struct {
	word string
	id   int64
}

// numbered returns the words of a dict, in either direction, or of a list with their ids.
func numbered(v any, name string) (list []numberedWord, err error) {
	d, ok := v.(*pickle.Dict)
	if items, isList := pickle.Items(v); isList {
		d, ok = &pickle.Dict{}, true
		for i, w := range items {
			d.Set(int64(i), w)
		}
	}
	if !ok {
		return nil, fmt.Errorf("its %s is a %s; expected a dict or a list", name, pickle.TypeName(v))
	}
	for word, id := range d.All() {
		if _, isID := id.(int64); !isID {
			word, id = id, word
		}
		w, isText := pickle.Text(word)
		i, isInt := id.(int64)
		if key, isKey := pickle.Text(id); isKey { // JSON has no other keys
			if i, err = strconv.ParseInt(key, 10, 64); err != nil {
				return nil, fmt.Errorf("%s has the key %q; expected a number", name, key)
			}
			isInt = true
		}
		if !isText || !isInt {
			return nil, fmt.Errorf("its %s maps a %s to a %s; expected words and ints", name, pickle.TypeName(word),
				pickle.TypeName(id))
		}
		list = append(list, numberedWord{w, i})
	}
	return list, nil
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

// decodePickleVocab reads a pickled vocabulary, usually an instance of a class Vocabulary. Nothing in the pickle is
// executed.
func decodePickleVocab(b []byte) (*Vocabulary, error) {
	value, _, err := pickle.Decode(bytes.NewReader(b), pickle.Options{Instances: true,
		Globals: pickle.Merge(pickle.Standard(), pickle.NumPy())})
	if err != nil {
		return nil, fmt.Errorf("not a vocabulary pickle: %w", err)
	}
	return vocabularyOf(value)
}

// Save writes the vocabulary as SCAN's JSON, atomically.
func (v *Vocabulary) Save(path string) error { return save(path, v.encode) }

// Holds reports whether a file has this vocabulary; false if the file does not exist. A file with other content is an
// error that names both numbers of words.
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
