package integrity

import (
	"io"
	"path/filepath"

	"vsetrain/internal/files/atomicfile"
)

// Folder is a set of new files in one folder, whose other files stay. Its manifest lists the new ones.
type Folder struct {
	atomicfile.Set
	Dir string
}

// NewFolder makes the folder where it is not there.
func NewFolder(dir string) (*Folder, error) { return &Folder{Dir: dir}, atomicfile.MkdirAll(dir) }

// Write writes a file, which gets its name by Commit.
func (f *Folder) Write(name string, write func(io.Writer) error) error {
	file, err := atomicfile.Create(filepath.Join(f.Dir, name))
	if err != nil {
		return err
	}
	f.Add(file)
	file.Tee(NewSummer())
	return file.Fill(write)
}

// Commit puts the files in their places, together with the manifest.
func (f *Folder) Commit() error { return Commit(&f.Set) }
