package text

import "errors"

func decodePickleVocab([]byte) (*Vocabulary, error) {
	return nil, errors.New("pickle vocabularies cannot be read yet; convert it to JSON")
}
