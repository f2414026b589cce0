package trained

import (
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/files/runfs"
)

// RunOf returns the run directory that a checkpoint path names or lies in.
func RunOf(path string) (string, bool, error) {
	for _, dir := range []string{path, filepath.Dir(filepath.Dir(path))} {
		if there, err := runfs.Exists(filepath.Join(dir, runfs.ConfigName)); err != nil {
			return "", false, err
		} else if !there {
			continue
		}
		for _, l := range []text.Lexicon{(*text.Vocabulary)(nil), (*text.BertCaptions)(nil)} {
			if there, err := runfs.Exists(filepath.Join(dir, l.FileName())); there || err != nil {
				return dir, there, err
			}
		}
	}
	return "", false, nil
}
