package inputs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vsetrain/data"
	"vsetrain/data/text"
	"vsetrain/internal/files/integrity"
	"vsetrain/internal/files/runfs"
	"vsetrain/internal/run/config"
	"vsetrain/loss"
	"vsetrain/models"
	"vsetrain/semantic"
)

// OpenLexicon opens the tokenizer that maps captions of a data set to ids for a network: the vocabulary of the data
// set, or the word pieces of its BERT.
func OpenLexicon(o data.Options, m *models.Options) (text.Tokenizer, error) {
	if o.Vocab != "auto" {
		return LoadLexicon(o.Vocab, m)
	}
	if m.TextEncoder == models.TextBert {
		if m.Bert.Dir != "" {
			if err := CheckBert("model.bert.dir", m.Bert.Dir); err != nil {
				return nil, err
			}
			return LoadLexicon(filepath.Join(m.Bert.Dir, "vocab.txt"), m)
		}
		path := filepath.Join(o.Dir, "vocab.txt")
		if _, err := os.Stat(path); o.Dir == "" || errors.Is(err, fs.ErrNotExist) {
			return nil, config.Mistakef("which word pieces? name the folder of BERT (vocab.txt and weights) with " +
				"model.bert.dir, or its vocab.txt with --vocab or data.vocab")
		}
		return LoadLexicon(path, m)
	}
	if err := needsDir(o); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, "vocab.json")
	v, err := LoadLexicon(path, m)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return v, err
	case absent(o.Dir):
		return nil, &data.FolderError{Dir: o.Dir, Split: "train"}
	}
	return nil, fmt.Errorf("%s: %w; build one with 'vsetrain data vocab %s', or name a file in data.vocab",
		path, ErrNoVocabulary, o.Dir)
}

// ErrNoVocabulary is the error of a data set without its vocabulary.
var ErrNoVocabulary = errors.New("no vocabulary")

// CheckBert checks that the folder in a setting contains word pieces, the smallest part of a pretrained BERT.
func CheckBert(setting, dir string) error {
	path := filepath.Join(dir, "vocab.txt")
	if !absent(path) {
		return nil
	}
	what := path + ": no such file"
	if absent(dir) {
		what = dir + ": no such folder"
	}
	return fmt.Errorf("%s: %s; it names the folder of a pretrained BERT: vocab.txt, config.json, and "+
		"model.safetensors or pytorch_model.bin (docs/networks.md says where to get it)", setting, what)
}

// LoadLexicon reads a vocabulary file for a network. VSE-infinity and CHAN add the word <mask> after all others. The
// file may contain it already: their repositories add it in memory (train.py: vocab.add_word('<mask>')) and may have
// saved it.
func LoadLexicon(path string, m *models.Options) (text.Tokenizer, error) {
	if m.TextEncoder == models.TextBert {
		return text.LoadBertTokenizer(path, m.Bert.Positions)
	}
	v, err := text.LoadVocabulary(path)
	if err == nil && m.Traits().MaskWord {
		v = v.WithoutMask()
	}
	return v, err
}

func needsDir(o data.Options) error {
	if o.Dir == "" {
		return config.Mistakef("data.dir is empty; name the folder of the data set, for example with --set " +
			"data.dir=data/f30k")
	}
	return nil
}

// OpenSplit opens a split of a data set with the parts that the network reads. Partial, Original and Warn are taken
// from open.
func OpenSplit(o data.Options, m models.Options, split string, open data.OpenOptions) (*data.Split, error) {
	if err := needsDir(o); err != nil {
		return nil, err
	}
	t := m.Traits()
	open.CaptionsPerImage, open.FeatureDType = o.CaptionsPerImage.Of(split), o.FeatureDType
	if split == "dev" {
		open.MaxCaptions = cmp.Or(o.DevCaptions, -1)
	}
	open.Boxes, open.WordIDs = t.Boxes, t.StoredWords
	switch {
	case t.ReadsEdges:
		open.Dependencies = "need"
	case t.Dependencies:
		open.Dependencies = "check"
	}
	s, err := data.Open(o.Dir, split, open)
	if err == nil && data.Counted(s) && !t.Counts {
		able := models.NamesWhere(func(t models.Traits) bool { return t.Counts })
		err = errors.Join(fmt.Errorf("%s: images with different numbers of regions (%s_lengths.npy), which network %s "+
			"cannot tell apart; choose one of %s, or remove that file to count the padding as regions",
			s.FeaturePath(), split, m.Network, strings.Join(able, ", ")), s.Close())
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// CheckData opens the splits that a training reads, without their features.
func CheckData(c *config.Config) error {
	for _, name := range []string{"train", "dev"} {
		s, err := OpenSplit(c.Data, c.Model, name, data.OpenOptions{})
		if err != nil {
			return NameFolder(err, "data.dir", nil)
		}
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Captions is the number of captions of the training split of a configuration, 0 if it cannot be opened.
func Captions(c *config.Config) int {
	s, err := OpenSplit(c.Data, c.Model, "train", data.OpenOptions{})
	if err != nil {
		return 0
	}
	defer s.Close()
	return s.NumCaptions()
}

// Dims returns the sizes of a network for a split and a vocabulary.
func Dims(s *data.Split, v text.Tokenizer) models.Dims {
	return models.Dims{Regions: s.Regions(), Feature: s.Dim(), Vocab: v.Len(), Counted: data.Counted(s)}
}

// SemanticsPath finds the semantic vectors of the training captions.
func SemanticsPath(o data.Options, l *loss.Options) (string, error) {
	if o.Semantics != "auto" {
		return o.Semantics, nil
	}
	kind := l.LSEH.Semantics
	for _, ext := range []string{".npy", ".txt"} {
		path := filepath.Join(o.Dir, "train_"+kind+ext)
		if there, err := runfs.Exists(path); there || err != nil {
			return path, err
		}
	}
	return "", fmt.Errorf("%s: no train_%s.npy or train_%s.txt, the semantic vectors that loss %s needs; compute "+
		"them with 'vsetrain precompute-%s --data %s'",
		o.Dir, kind, kind, l.Name, kind, o.Dir)
}

// AttachSemantics gives the training split its semantic vectors.
func AttachSemantics(s *data.Split, o data.Options, l *loss.Options, warn func(error)) (*semantic.Store, error) {
	path, err := SemanticsPath(o, l)
	if err != nil {
		return nil, err
	}
	store, err := OpenSemantics(path, s, warn)
	if err != nil {
		return nil, err
	}
	if err := s.AttachSemantics(store, path); err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

// OpenSemantics opens the semantic vectors of the captions of a split.
func OpenSemantics(path string, s *data.Split, warn func(error)) (*semantic.Store, error) {
	name := filepath.Base(path) // data.Open has looked at the files of the data set
	if _, err := integrity.CheckOpen(filepath.Dir(path), name, name+".json"); err != nil {
		return nil, err
	}
	return semantic.Open(path, semantic.OpenOptions{Captions: s.NumCaptions(), CaptionFile: s.CaptionPath(),
		Warn: warn})
}
