package disk

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// Windows does not rename or remove files that are mapped, or that another process has open, such as a virus scanner or
// indexer for a moment. Such calls are tried again for some time.
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
		// If the target is in use, the error is "access denied", the same as without permission.
		if !InUse(err) && !errors.Is(err, windows.ERROR_ACCESS_DENIED) || time.Now().After(end) {
			return err
		}
	}
}

// Rename replaces to as a whole and returns when the name is on the disk, as far as Windows guarantees that
// (MOVEFILE_WRITE_THROUGH). Package os does not wait.
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

// Remove is os.Remove, tried again while another process has the file open.
func (Host) Remove(path string) error { return patiently(func() error { return os.Remove(path) }) }

// SyncDir does nothing: Windows documents no call that makes the names in a folder durable (docs/install.md).
func (Host) SyncDir(string) error { return nil }
