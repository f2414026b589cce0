package pretrained

import (
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/files/runfs"
	"vsetrain/models"
)

// RunOf returns the run directory that a checkpoint path names or is in.
func RunOf(path string) (string, bool, error) {
	for _, dir := range []string{path, filepath.Dir(filepath.Dir(path))} {
		if there, err := runfs.Exists(filepath.Join(dir, runfs.ConfigName)); err != nil {
			return "", false, err
		} else if !there {
			continue
		}
		for _, l := range []text.Tokenizer{(*text.Vocabulary)(nil), (*text.BertTokenizer)(nil)} {
			if there, err := runfs.Exists(filepath.Join(dir, l.FileName())); there || err != nil {
				return dir, there, err
			}
		}
	}
	return "", false, nil
}

// lexiconName is the file name of the vocabulary of a network.
func lexiconName(m *models.Options) string {
	if m.TextEncoder == models.TextBert {
		return (*text.BertTokenizer)(nil).FileName()
	}
	return (*text.Vocabulary)(nil).FileName()
}

// VocabularyOf returns the vocabulary file of a checkpoint: the one of the run directory that its path names or is in,
// or the one beside it in a folder in the Hub's layout. It is "" for any other file.
func VocabularyOf(path string, m *models.Options) (string, error) {
	name := lexiconName(m)
	dir, ok, err := RunOf(path)
	if err != nil {
		return "", err
	}
	if ok {
		return filepath.Join(dir, name), nil
	}
	if filepath.Base(path) != models.HubName {
		path = filepath.Join(path, models.HubName)
	}
	there, err := runfs.Exists(path)
	file := filepath.Join(filepath.Dir(path), name)
	if there && err == nil {
		there, err = runfs.Exists(file)
	}
	if !there || err != nil {
		return "", err
	}
	return file, nil
}
