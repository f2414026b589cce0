package npy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// atomicFile is a temporary file in the folder of path that commit renames to path.
type atomicFile struct {
	path string
	f    *os.File
	done bool
}

func createAtomic(path string) (*atomicFile, error) {
	dir, base := filepath.Split(path)
	for i := range 1000 {
		name := filepath.Join(dir, fmt.Sprintf(".%s.%d-%d.tmp", base, os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return &atomicFile{path: path, f: f}, nil
	}
	return nil, fmt.Errorf("too many temporary files .%s.*.tmp beside it; remove them", base)
}

// commit syncs the file, renames it and syncs the folder, so that the new name survives a power failure.
func (a *atomicFile) commit() error {
	if err := a.f.Sync(); err != nil {
		return err
	}
	if err := a.f.Close(); err != nil {
		return err
	}
	if err := os.Rename(a.f.Name(), a.path); err != nil {
		return err
	}
	a.done = true
	if d, err := os.Open(filepath.Dir(a.path)); err == nil {
		_ = d.Sync() // some systems cannot sync a folder; the data itself is safe
		d.Close()
	}
	return nil
}

func (a *atomicFile) abort() {
	if a.done {
		return
	}
	a.done = true
	a.f.Close()
	os.Remove(a.f.Name())
}
