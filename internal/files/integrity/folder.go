package integrity

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/internal/files/atomicfile"
)

// Folder is a set of new files in one folder, whose other files stay. Before the first new file has its name, the
// manifest of the folder announces all of them. So this program knows its own files, even after a command that failed
// half-way, and replaces them; it replaces other files only with Replace.
type Folder struct {
	atomicfile.Set
	Dir     string
	Replace bool
	listed  *Manifest // when the folder was opened; may be nil
}

// NewFolder makes the folder if it is missing.
func NewFolder(dir string) (*Folder, error) {
	m, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return &Folder{Dir: dir, listed: m}, atomicfile.MkdirAll(dir)
}

// Write writes a file, which gets its name in Commit.
func (f *Folder) Write(name string, write func(io.Writer) error) error {
	path := filepath.Join(f.Dir, name)
	if _, err := os.Lstat(path); !f.Replace && !f.listed.knows(name) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there, and %s does not list it as a file that vsetrain wrote: choose another folder, "+
			"move the file away, or add it to the list with 'vsetrain verify --record %s'", path, ManifestName, f.Dir)
	}
	file, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	f.Add(file)
	file.Tee(NewSummer())
	return file.Fill(write)
}

// Commit commits the files and the manifest.
func (f *Folder) Commit() error {
	defer f.Abort()
	if err := f.announce(); err != nil {
		return err
	}
	return Commit(&f.Set)
}

// announce adds the names of the files to the manifest.
func (f *Folder) announce() error {
	m := f.listed
	if m == nil {
		m = &Manifest{Files: map[string]Sum{}}
	}
	var names []string
	for _, path := range f.Paths() {
		if name := filepath.Base(path); !m.knows(name) {
			names = append(names, name)
		}
	}
	if names == nil || f.Replace {
		return nil
	}
	m.Writing = append(m.Writing, names...)
	file, err := m.create(f.Dir)
	if err != nil {
		return err
	}
	return file.Commit()
}

// knows reports whether this program wrote a file or was about to; a nil manifest knows none.
func (m *Manifest) knows(name string) bool {
	_, ok := m.sum(name)
	return ok || m != nil && slices.Contains(m.Writing, name)
}
