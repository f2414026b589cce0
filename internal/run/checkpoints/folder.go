package checkpoints

import (
	"encoding/json"
	"io"
	"path/filepath"

	"vsetrain/data/text"
	"vsetrain/internal/files/atomicfile"
)

// folder is a set of new files in one folder, whose other files stay.
type folder struct {
	atomicfile.Set
	dir string
}

// prepare makes the folder. Without force none of the files may be there.
func (f *folder) prepare(force bool, names []string) error {
	for _, name := range names {
		if err := RefuseOverwrite(filepath.Join(f.dir, name), force); err != nil {
			return err
		}
	}
	return atomicfile.MkdirAll(f.dir)
}

func (f *folder) add(name string, write func(io.Writer) error) error {
	file, err := atomicfile.Create(filepath.Join(f.dir, name))
	if err != nil {
		return err
	}
	f.Add(file)
	return write(file)
}

func (f *folder) addJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return f.add(name, atomicfile.Bytes(append(b, '\n')))
}

// addVocabulary writes the files of a lexicon.
func (f *folder) addVocabulary(v text.Lexicon) error {
	for _, file := range v.Files() {
		if err := f.add(file.Name, file.Write); err != nil {
			return err
		}
	}
	return nil
}

// vocabularyNames are the names of the files of a lexicon.
func vocabularyNames(v text.Lexicon) (names []string) {
	for _, file := range v.Files() {
		names = append(names, file.Name)
	}
	return names
}
