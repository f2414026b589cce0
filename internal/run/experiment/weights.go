package experiment

import (
	"fmt"
	"io"
	"path/filepath"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/semantic"
)

// attachSemantics gives the training split its semantic vectors; the closer is theirs.
func attachSemantics(s *data.Split, o data.Options, l *loss.Options, warn func(error)) (io.Closer, error) {
	path, err := semanticsPath(o, l)
	if err != nil {
		return nil, err
	}
	store, err := semantic.Open(path, semantic.OpenOptions{Captions: s.NumCaptions(),
		CaptionFile: filepath.Join(s.Dir(), s.Name()+"_caps.txt"), Warn: warn})
	if err != nil {
		return nil, err
	}
	if err := s.AttachSemantics(store, path); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// loadWeights starts a model from the weights of a checkpoint: a run directory, a file of vsetrain, or one of a
// reference repository. The vocabulary must be the one the weights were trained with, where the checkpoint knows it.
func loadWeights(m *models.Model, path string, v text.Lexicon) error {
	c, err := models.OpenWeights(path)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := sameVocabulary(c, v); err != nil {
		return err
	}
	return c.Restore(m)
}

// sameVocabulary refuses weights whose word vectors belong to another vocabulary.
func sameVocabulary(c models.Weights, v text.Lexicon) error {
	if h := c.VocabularyHash(); h != "" && h != v.Hash() {
		return fmt.Errorf("%s was trained with another vocabulary (hash %.12s) than the one given (%d words, %.12s), "+
			"so its word vectors mean other words; name the right one with --vocab or data.vocab",
			c.File(), h, v.Len(), v.Hash())
	}
	if n := c.Sizes().Vocab; n != v.Len() {
		return fmt.Errorf("%s has vectors for %d words, the vocabulary has %d; "+
			"name the one it was trained with with --vocab or data.vocab",
			c.File(), n, v.Len())
	}
	return nil
}
