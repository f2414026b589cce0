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

// Folder is a set of new files in one folder, whose other files stay. Its manifest lists the new ones, and before the
// first of them has its name the manifest says that they will be written. So a file that is there already is known as
// one of this program, also after a command that failed half-way, and is replaced; any other only with Replace.
type Folder struct {
	atomicfile.Set
	Dir     string
	Replace bool
	listed  *Manifest // as the folder was found
}

// NewFolder makes the folder where it is not there.
func NewFolder(dir string) (*Folder, error) {
	m, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return &Folder{Dir: dir, listed: m}, atomicfile.MkdirAll(dir)
}

// Write writes a file, which gets its name by Commit.
func (f *Folder) Write(name string, write func(io.Writer) error) error {
	path := filepath.Join(f.Dir, name)
	if _, err := os.Lstat(path); !f.Replace && !f.listed.knows(name) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there, and %s does not list it as a file that vsetrain wrote: choose another folder, "+
			"move the file away, or have it listed with 'vsetrain verify --record %s'", path, ManifestName, f.Dir)
	}
	file, err := atomicfile.Create(path)
	if err != nil {
		return err
	}
	f.Add(file)
	file.Tee(NewSummer())
	return file.Fill(write)
}

// Commit puts the files in their places, together with the manifest.
func (f *Folder) Commit() error {
	defer f.Abort()
	if err := f.announce(); err != nil {
		return err
	}
	return Commit(&f.Set)
}

// announce writes the names of the files into the manifest, where it does not have them.
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

// knows reports whether a file was written by this program, or was about to be; a nil manifest knows none.
func (m *Manifest) knows(name string) bool {
	_, ok := m.sum(name)
	return ok || m != nil && slices.Contains(m.Writing, name)
}
