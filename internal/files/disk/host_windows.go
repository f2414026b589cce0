package disk

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// Windows refuses to rename and remove files that another process has open, as virus scanners and indexers have new
// files for a moment, and those that are mapped. Such calls are tried again for so long.
const (
	patience = 2 * time.Second
	pause    = 10 * time.Millisecond
)

var (
	fullErrors = []error{syscall.ENOSPC, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL,
		windows.ERROR_DISK_QUOTA_EXCEEDED}
	inUseErrors = []error{windows.ERROR_SHARING_VIOLATION, windows.ERROR_LOCK_VIOLATION,
		windows.ERROR_USER_MAPPED_FILE}
)

// patiently calls f until it does not fail because a file is in use.
func patiently(f func() error) error {
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := f()
		// A file whose target is in use is "access denied", as one without permission is.
		if !InUse(err) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) || time.Now().After(end) {
			return err
		}
	}
}

// Rename replaces to as a whole and returns when the name is on the disk, as far as Windows promises it:
// MOVEFILE_WRITE_THROUGH. Package os waits for neither.
func (Host) Rename(from, to string) error {
	old, err := windows.UTF16PtrFromString(from)
	if err != nil {
		return err
	}
	name, err := windows.UTF16PtrFromString(to)
	if err != nil {
		return err
	}
	err = patiently(func() error {
		return windows.MoveFileEx(old, name, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
	})
	if err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	return nil
}

// Remove is the function of package os, for files that others have open for a moment too.
func (Host) Remove(path string) error { return patiently(func() error { return os.Remove(path) }) }

// SyncDir does nothing: Windows documents no call that makes the names in a folder lasting (docs/install.md).
func (Host) SyncDir(string) error { return nil }
