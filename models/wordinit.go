package models

import (
	"fmt"
	"slices"

	"vsetrain/models/nn"
)

// The word vectors of a GRU or BiGRU encoder can start from a file of pretrained vectors. Words that the file lacks are
// drawn as without a file, except in CHAN: its code draws them from a normal distribution with deviation 1, and without
// a file from Xavier's (ppanzx/CHAN, lib/encoders.py, EncoderTextBigru.init_weights).

// Words describes the pretrained word vectors of a model.
type Words struct {
	File   string `json:"file"` // base name
	SHA256 string `json:"sha256"`
	Found  int    `json:"found"` // words in the file
	Of     int    `json:"of"`    // words of the vocabulary, special ones and <mask> included
}

// wordTable is the name of the word vectors.
const wordTable = "txt.embed.weight"

// wordsOf returns the word vectors of a network, [V, W]. V includes <mask> if the network has it.
func wordsOf(n Network) (*nn.Param, error) {
	i := slices.IndexFunc(n.Params(), func(p *nn.Param) bool { return p.Name == wordTable })
	if i < 0 {
		return nil, fmt.Errorf("the network has no table of word vectors (%s)", wordTable)
	}
	return n.Params()[i], nil
}

// freezeWords excludes the word vectors from training.
func freezeWords(n Network) error {
	p, err := wordsOf(n)
	if err == nil {
		p.State = true
	}
	return err
}
