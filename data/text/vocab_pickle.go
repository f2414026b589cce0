package text

import (
	"bytes"
	"fmt"

	"vsetrain/internal/files/pickle"
)

// decodePickleVocab reads the vocabulary of VSE++ and VSRN: an instance of the class Vocabulary of the script that
// wrote it, with the members word2idx, idx2word and idx. Nothing of the pickle is executed.
func decodePickleVocab(b []byte) (*Vocabulary, error) {
	classes := pickle.Globals{}
	for _, name := range []string{"__main__.Vocabulary", "vocab.Vocabulary"} {
		classes[name] = pickle.ObjectClass(name)
	}
	value, _, err := pickle.Decode(bytes.NewReader(b),
		pickle.Options{Globals: pickle.Merge(pickle.Standard(), classes)})
	if err != nil {
		return nil, fmt.Errorf("not a vocabulary pickle: %w", err)
	}
	var member func(string) (any, bool)
	switch v := value.(type) {
	case *pickle.Object:
		member = func(name string) (any, bool) { return v.Attrs.Get(name) }
	case *pickle.Dict:
		member = func(name string) (any, bool) { return v.Get(name) }
	default:
		return nil, fmt.Errorf("the pickle holds a %s; expected an instance of Vocabulary", pickle.TypeName(value))
	}
	dict := func(name string) (*pickle.Dict, error) {
		v, _ := member(name)
		d, ok := v.(*pickle.Dict)
		if !ok {
			return nil, fmt.Errorf("the pickle's %s is %s; expected a dict", name, pickle.TypeName(v))
		}
		return d, nil
	}
	w2i, err := dict("word2idx")
	if err != nil {
		return nil, err
	}
	i2w, err := dict("idx2word")
	if err != nil {
		return nil, err
	}
	v, _ := member("idx")
	idx, ok := v.(int64)
	if !ok {
		return nil, fmt.Errorf("the pickle's idx is %s; expected an int", pickle.TypeName(v))
	}
	byWord, byID := make(map[string]int64, w2i.Len()), make(map[int64]string, i2w.Len())
	pair := func(word, id any) (string, int64, error) {
		w, isText := pickle.Text(word)
		i, isInt := id.(int64)
		if !isText || !isInt {
			return "", 0, fmt.Errorf("the pickle maps %s to %s; expected words and ints", pickle.TypeName(word),
				pickle.TypeName(id))
		}
		return w, i, nil
	}
	for word, id := range w2i.All() {
		w, i, err := pair(word, id)
		if err != nil {
			return nil, err
		}
		byWord[w] = i
	}
	for id, word := range i2w.All() {
		w, i, err := pair(word, id)
		if err != nil {
			return nil, err
		}
		byID[i] = w
	}
	return fromMaps(byWord, byID, idx)
}
