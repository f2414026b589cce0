package models

import (
	"fmt"
	"slices"

	"vsetrain/models/nn"
)

// Pretrained word vectors: the table of a GRU or BiGRU encoder begins with the vectors that a file has for the words of
// the vocabulary, as they are. What the file lacks is drawn as ever, but for CHAN, whose code draws from a normal
// distribution of deviation 1 where it has a file and from Xavier's where it has none (ppanzx/CHAN, lib/encoders.py,
// EncoderTextBigru.init_weights).

// Words says where the word vectors of a model began.
type Words struct {
	File   string `json:"file"` // base name
	SHA256 string `json:"sha256"`
	Found  int    `json:"found"` // words that the file has
	Of     int    `json:"of"`    // words of the vocabulary, special ones and <mask> included
}

// wordTable is the name of the table of word vectors.
const wordTable = "txt.embed.weight"

// wordsOf returns the table of word vectors of a network [V, W], V the words of the vocabulary and <mask> where the
// network has one.
func wordsOf(n Network) (*nn.Param, error) {
	i := slices.IndexFunc(n.Params(), func(p *nn.Param) bool { return p.Name == wordTable })
	if i < 0 {
		return nil, fmt.Errorf("the network has no table of word vectors (%s)", wordTable)
	}
	return n.Params()[i], nil
}

// freezeWords keeps the word vectors from being trained.
func freezeWords(n Network) error {
	p, err := wordsOf(n)
	if err == nil {
		p.State = true
	}
	return err
}
