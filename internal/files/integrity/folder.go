package integrity

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"vsetrain/internal/files/atomicfile"
)

// Folder is a set of new files in one folder, whose other files stay. Its manifest lists the new ones. A file that is
// there already is replaced where the manifest lists it, as one of an earlier set, or with Replace.
type Folder struct {
	atomicfile.Set
	Dir     string
	Replace bool
	listed  *Manifest
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
	if _, known := f.listed.sum(name); !known && !f.Replace {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s is there, and %s does not list it as a file of an earlier time: choose another "+
				"folder, move the file away, or have it listed with 'vsetrain verify --record %s'", path, ManifestName,
				f.Dir)
		}
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
func (f *Folder) Commit() error { return Commit(&f.Set) }
