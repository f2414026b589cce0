package runfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"vsetrain/internal/files/regular"
)

// LockOwner takes the lock for some microseconds, shared with other callers. A process that wants to write at that
// moment tries again.
const (
	lockTries = 5
	lockPause = 5 * time.Millisecond // between them
)

// LockOwner reports whether a process writes in the run directory at path, and which one. It writes nothing.
func LockOwner(path string) (Owner, bool, error) {
	f, _, err := regular.Open(filepath.Join(path, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return Owner{}, false, nil
	}
	if err != nil {
		return Owner{}, false, wrap("read", path, err)
	}
	defer f.Close()
	switch err := lockFile(f, false); { // until f is closed
	case errors.Is(err, errHeld):
		return readOwner(f), true, nil
	case err != nil && !hasNone(err): // a file system without locks has none that is held
		return Owner{}, false, wrap("read the lock of", path, err)
	}
	return Owner{}, false, nil
}
