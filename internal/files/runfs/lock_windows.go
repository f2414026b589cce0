package runfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// errHeld is the error of lockFile if another process holds the lock.
const errHeld = windows.ERROR_LOCK_VIOLATION

// hasNone reports whether an error of lockFile is due to a file system without locks.
func hasNone(err error) bool {
	return errors.Is(err, windows.ERROR_INVALID_FUNCTION) || errors.Is(err, windows.ERROR_NOT_SUPPORTED)
}

// lockFile takes the lock of an open file without waiting, exclusive (alone) or shared. It locks a byte far after the
// line of the owner, because Windows lets nobody else read locked bytes.
func lockFile(f *os.File, alone bool) error {
	how := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if alone {
		how |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	return windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
}
