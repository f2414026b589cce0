package pretrained

import (
	"errors"
	"fmt"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/run/config"
	"vsetrain/models"
)

// OpenWeights opens weights. set contains options of the network, as for --set, for values that a file of a reference
// repository does not contain. warn is told which values are missing.
func OpenWeights(path string, set []string, warn func(error)) (models.Weights, error) {
	given, err := config.Given(set)
	if err != nil {
		return nil, err
	}
	c, err := models.OpenWeights(path, given)
	if err != nil {
		return nil, err
	}
	if err := ofItsRun(path, c); err != nil {
		c.Close()
		return nil, err
	}
	if text := c.Assumed(); text != "" && warn != nil {
		warn(errors.New(text))
	}
	return c, nil
}

// LoadWeights loads the weights of a checkpoint into a model: a run directory, a file of vsetrain, or one of a
// reference repository. If the checkpoint records its vocabulary, v must be the same. The options of the model do not
// change; warn is told where those of the checkpoint differ.
func LoadWeights(m *models.Model, path string, v text.Tokenizer, warn func(error)) error {
	c, err := models.OpenWeights(path, nil)
	if err != nil { // the configuration has what the file lacks
		var e error
		if c, e = models.OpenWeights(path, models.GivenBy(m.Options)); e != nil {
			return err
		}
	}
	defer c.Close()
	if err := errors.Join(ofItsRun(path, c), SameVocabulary(c, v)); err != nil {
		return err
	}
	if err := c.Restore(m); err != nil {
		return err
	}
	if other := models.OtherOptions(c, m.Options); other != "" {
		warn(fmt.Errorf("train.init_from: %s was trained with %s; this run has other values", c.File(), other))
	}
	return nil
}

// SameVocabulary returns an error if the word vectors of the weights belong to another vocabulary.
func SameVocabulary(c models.Weights, v text.Tokenizer) error {
	if h := c.VocabularyHash(); h != "" && h != v.Hash() {
		beside := ""
		if _, ok := v.(*text.BertTokenizer); ok {
			beside = ", with its " + text.TokenizerConfig + " beside it,"
		}
		return fmt.Errorf("%s was trained with another vocabulary (hash %.12s) than the one given (%d words, %.12s), "+
			"so its word vectors mean other words; name the right one%s with --vocab or data.vocab",
			c.File(), h, v.Len(), v.Hash(), beside)
	}
	if n := c.Sizes().Vocab; n != v.Len() {
		return fmt.Errorf("%s has vectors for %d words, the vocabulary has %d; "+
			"name the one it was trained with with --vocab or data.vocab",
			c.File(), n, v.Len())
	}
	return nil
}

// fits checks that weights, data and vocabulary belong together. It returns the sizes of the network for this data.
func fits(c models.Weights, s *data.Split, v text.Tokenizer) (models.Dims, error) {
	if s.Regions() == 0 {
		return c.Sizes(), SameVocabulary(c, v)
	}
	d, err := sizesFit(c, s.Regions(), s.Dim(), s.FeaturePath()+" has",
		"name a data set with features of that size with --data")
	if err != nil {
		return d, err
	}
	d.Counted = data.Counted(s)
	return d, SameVocabulary(c, v)
}

// sizesFit checks that weights can read features [.., regions, dim], which whose describes. It returns the sizes of the
// network for them.
func sizesFit(c models.Weights, regions, dim int, whose, remedy string) (models.Dims, error) {
	d, o := c.Sizes(), c.Network()
	if o.Traits().AnyRegions {
		d.Regions = regions
	}
	if d.Regions*d.Feature != regions*dim {
		return d, fmt.Errorf("%s was trained on features of %d x %d, %s %d x %d; %s", c.File(), c.Sizes().Regions,
			d.Feature, whose, regions, dim, remedy)
	}
	return d, nil
}
