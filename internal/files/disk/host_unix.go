//go:build unix

package disk

import (
	"cmp"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

var (
	fullErrors  = []error{unix.ENOSPC, unix.EDQUOT}
	inUseErrors []error // none: open files can be replaced and removed
)

// Rename and Remove are the functions of package os.
func (Host) Rename(from, to string) error { return os.Rename(from, to) }

func (Host) Remove(path string) error { return os.Remove(path) }

// SyncDir makes the names in dir durable, after files were created or renamed there.
func (Host) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = cmp.Or(d.Sync(), d.Close())
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil // some network file systems cannot sync a folder
	}
	return err
}
