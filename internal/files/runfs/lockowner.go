package runfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"vsetrain/internal/files/regular"
)

// Asking who holds a lock takes it for some microseconds, shared with others who ask. Whoever wants it for writing in
// that moment tries again: that often, so long apart.
const (
	lockTries = 5
	lockPause = 5 * time.Millisecond
)

// LockOwner tells whether a process writes in the run directory at path now, and which one. Nothing is written, and a
// directory that was never locked is held by nobody.
func LockOwner(path string) (Owner, bool, error) {
	f, _, err := regular.Open(filepath.Join(path, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return Owner{}, false, nil
	}
	if err != nil {
		return Owner{}, false, wrap("read", path, err)
	}
	defer f.Close()
	held, err := isHeld(f)
	if err != nil {
		return Owner{}, false, wrap("read the lock of", path, err)
	}
	if !held {
		return Owner{}, false, nil
	}
	return readOwner(f), true, nil
}
