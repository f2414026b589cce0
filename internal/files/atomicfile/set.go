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
// an incomplete set visible: add the files that every reader needs last. Commit removes their earlier versions first
// and renames the new ones last. A reader that finds them finds a whole set.
type Set struct {
	files []*File
	gone  []string
}

// Add adds a file that has been written.
func (s *Set) Add(f *File) { s.files = append(s.files, f) }

// Write adds a file with this content.
func (s *Set) Write(path string, content []byte) error {
	f, err := New(path, Bytes(content))
	if err == nil {
		s.Add(f)
	}
	return err
}

// AddFirst adds a file that readers do not need.
func (s *Set) AddFirst(f *File) { s.files = slices.Insert(s.files, 0, f) }

// Files returns the new files, in their order.
func (s *Set) Files() []*File { return s.files }

// Gone returns the names of the files that Commit removes.
func (s *Set) Gone() []string { return s.gone }

// Remove makes Commit remove the file at path, if there is one.
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

// Prepare syncs and closes the new files. Then only their names are wrong. The error is an *Error.
func (s *Set) Prepare() error {
	for _, f := range s.files {
		if err := f.prepare(); err != nil {
			return err
		}
	}
	return nil
}

// Commit renames all files to their targets. After an error the earlier files are where they were, and none of the new
// ones is there, except after an error of the last sync. A kill in between leaves a set that lacks its last files. The
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
	aside   []move // earlier files, which have hidden names
	renamed []*File
}

type move struct{ from, to string }

func (r *replacement) replace(s *Set) error {
	earlier := s.Paths()
	slices.Reverse(earlier)
	for _, path := range append(earlier, s.gone...) {
		if err := r.hide(path); err != nil {
			return err
		}
	}
	for i, f := range s.files {
		if i == len(s.files)-1 { // no reader may find the last file without the others, even after a power failure
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
		if len(r.aside) == 1 { // durable before any other file changes
			err = disk.Now().SyncDir(filepath.Dir(path))
		}
	}
	return Explain("write", path, err)
}

// undo removes the new files and restores the earlier ones, in reverse order.
func (r *replacement) undo() error {
	var errs []error
	for _, f := range slices.Backward(r.renamed) {
		if err := disk.Now().Remove(f.path); err != nil {
			errs = append(errs, Explain("remove", f.path, err))
		}
	}
	for _, m := range slices.Backward(r.aside) {
		if err := disk.Now().Rename(m.to, m.from); err != nil {
			errs = append(errs, Explain("write", m.from, fmt.Errorf("the earlier file is at %s: %w", m.to, err)))
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
