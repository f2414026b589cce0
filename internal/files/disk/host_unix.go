//go:build unix

package disk

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var (
	fullErrors  = []error{unix.ENOSPC, unix.EDQUOT}
	inUseErrors []error // an open file is replaced and removed as any other
)

// Rename and Remove are the functions of package os.
func (Host) Rename(from, to string) error { return os.Rename(from, to) }

func (Host) Remove(path string) error { return os.Remove(path) }

// SyncDir makes the names in dir lasting: of files that were created or renamed there.
func (Host) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if closeErr := d.Close(); err == nil {
		err = closeErr
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil // some network file systems cannot sync a folder
	}
	return err
}
