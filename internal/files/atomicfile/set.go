package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vsetrain/internal/files/disk"
)

// Set is several files that belong together. No file system renames several files at once, so the order of a set makes
// half of one visible: the files that no reader can do without are added last. Commit takes the earlier ones of these
// away first and puts the new ones there last. A reader that finds them so finds a whole set.
type Set struct {
	files []*File
	gone  []string
}

// Add takes over a file that has been written.
func (s *Set) Add(f *File) { s.files = append(s.files, f) }

// Write adds a file of a content.
func (s *Set) Write(path string, content []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	s.Add(f)
	_, err = f.Write(content)
	return err
}

// AddFirst takes over a file that readers do without.
func (s *Set) AddFirst(f *File) { s.files = slices.Insert(s.files, 0, f) }

// Files returns the new files, in their order.
func (s *Set) Files() []*File { return s.files }

// Gone returns the names of the files that Commit takes away.
func (s *Set) Gone() []string { return s.gone }

// Remove says that an earlier file at path, if there is one, is not part of the new set.
func (s *Set) Remove(path string) { s.gone = append(s.gone, path) }

// Paths returns the names that the files will have, in their order.
func (s *Set) Paths() []string {
	var all []string
	for _, f := range s.files {
		all = append(all, f.path)
	}
	return all
}

// Abort removes the new files. It does nothing after Commit.
func (s *Set) Abort() {
	for _, f := range s.files {
		f.Abort()
	}
}

// Prepare syncs and closes the new files, after which only their names are wrong. The error is an *Error.
func (s *Set) Prepare() error {
	for _, f := range s.files {
		if err := f.prepare(); err != nil {
			return err
		}
	}
	return nil
}

// Commit puts all files in their places. After an error the earlier files are where they were, and none of the new ones
// is there, except after an error of the last sync. Killed in between, it leaves a set that lacks its last files. The
// error is an *Error.
func (s *Set) Commit() error {
	defer s.Abort()
	if err := s.Prepare(); err != nil {
		return err
	}
	if len(s.files) == 0 {
		return nil
	}
	if len(s.files) == 1 && len(s.gone) == 0 {
		return s.files[0].Commit()
	}
	r := replacement{}
	if err := r.replace(s); err != nil {
		return errors.Join(err, r.undo())
	}
	for _, m := range r.aside {
		disk.Now().Remove(m.to)
		forget(m.to)
	}
	return syncDirs(s.files)
}

// replacement is what Commit has done so far.
type replacement struct {
	aside   []move // earlier files that were given hidden names
	renamed []*File
}

type move struct{ from, to string }

func (r *replacement) replace(s *Set) error {
	for _, f := range slices.Backward(s.files) {
		if err := r.hide(f.path); err != nil {
			return err
		}
	}
	for _, path := range s.gone {
		if err := r.hide(path); err != nil {
			return err
		}
	}
	for i, f := range s.files {
		if i == len(s.files)-1 { // no reader may find the last without the others, after a power failure too
			if err := syncDirs(s.files); err != nil {
				return err
			}
		}
		if err := disk.Now().Rename(f.temp, f.path); err != nil {
			return Explain("write", f.path, err)
		}
		f.finish()
		r.renamed = append(r.renamed, f)
	}
	return nil
}

// hide gives an earlier file a hidden name.
func (r *replacement) hide(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err == nil && info.IsDir():
		err = errFolder
	}
	if err != nil {
		return Explain("write", path, err)
	}
	to, err := hidden(path, func(name string) error {
		if _, err := os.Lstat(name); err == nil {
			return fs.ErrExist // rename would replace it
		}
		return disk.Now().Rename(path, name)
	})
	if err == nil {
		r.aside = append(r.aside, move{path, to})
		if len(r.aside) == 1 { // lasting, before any other file changes
			err = disk.Now().SyncDir(filepath.Dir(path))
		}
	}
	return Explain("write", path, err)
}

// undo removes the new files and brings the earlier ones back, in the reverse order.
func (r *replacement) undo() error {
	var errs []error
	for _, f := range slices.Backward(r.renamed) {
		if err := disk.Now().Remove(f.path); err != nil {
			errs = append(errs, Explain("remove", f.path, err))
		}
	}
	for _, m := range slices.Backward(r.aside) {
		if err := disk.Now().Rename(m.to, m.from); err != nil {
			errs = append(errs, Explain("write", m.from, fmt.Errorf("the earlier file lies at %s: %w", m.to, err)))
		}
		forget(m.to)
	}
	return errors.Join(errs...)
}

// syncDirs syncs the folder of every file once.
func syncDirs(files []*File) error {
	done := map[string]bool{}
	for _, f := range files {
		dir := filepath.Dir(f.path)
		if done[dir] {
			continue
		}
		done[dir] = true
		if err := disk.Now().SyncDir(dir); err != nil {
			return Explain("write", f.path, err)
		}
	}
	return nil
}
