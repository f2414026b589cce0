package checkpoints

import (
	"encoding/json"
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/integrity"
)

// folder is the target folder of an export.
type folder struct{ *integrity.Folder }

// newFolder creates the folder. Without force none of the files may exist.
func newFolder(dir string, force bool, names []string) (folder, error) {
	for _, name := range names {
		if err := RefuseOverwrite(filepath.Join(dir, name), force); err != nil {
			return folder{}, err
		}
	}
	f, err := integrity.NewFolder(dir)
	if err == nil {
		f.Replace = true // those that are there, with force
	}
	return folder{f}, err
}

func (f folder) addJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return f.Write(name, atomicfile.Bytes(append(b, '\n')))
}

// addVocabulary writes the files of a tokenizer.
func (f folder) addVocabulary(v text.Tokenizer) error {
	for _, file := range v.Files() {
		if err := f.Write(file.Name, file.Write); err != nil {
			return err
		}
	}
	return nil
}

// vocabularyNames are the names of the files of a tokenizer.
func vocabularyNames(v text.Tokenizer) (names []string) {
	for _, file := range v.Files() {
		names = append(names, file.Name)
	}
	return names
}
