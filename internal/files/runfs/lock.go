package runfs

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
)

// unlocked is called in place of taking a lock; nil where locks are taken.
var unlocked atomic.Pointer[func(path string)]

// NoLocks lets this process write without locks from now on, as file systems need that have none (Lustre mounted with
// noflock, some of FUSE): nothing keeps two processes from writing to the same files then. instead is called with what
// each lock would have been for.
func NoLocks(instead func(path string)) { unlocked.Store(&instead) }

// acquire takes the exclusive lock of the file at path, for what is at dir; instead says what to do where it is held.
// The kernel gives it up when the process ends, however it ends, so a left-over file locks nobody out.
func acquire(dir, path, instead string, owner Owner) (io.Closer, error) {
	err := regular.Check(path)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	}
	if err != nil {
		return nil, wrap("write to", dir, err)
	}
	if warn := unlocked.Load(); warn != nil {
		(*warn)(dir)
	} else if err = lockFile(f, true); err != nil {
		for i := 1; i < lockTries && errors.Is(err, errHeld); i++ {
			time.Sleep(lockPause)
			err = lockFile(f, true)
		}
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, lockedError(dir, instead, readOwner(f))
		}
		remedy := instead
		if hasNone(err) {
			remedy = "this file system has no locks; where no other process writes there, set run.lock to " + LockOff +
				" (" + LockVariable + "=" + LockOff + " for every command), or " + instead
		}
		return nil, &atomicfile.Error{Op: "lock", Path: dir, Err: err, Remedy: remedy}
	}
	b, err := json.Marshal(owner)
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(b, '\n'), 0)
	}
	if err != nil {
		f.Close()
		return nil, wrap("write to", dir, err)
	}
	return f, nil
}

// isHeld reports whether a process holds the lock of an open lock file for writing. A file system without locks has
// none that is held.
func isHeld(f *os.File) (bool, error) {
	switch err := lockFile(f, false); { // given up when f is closed
	case errors.Is(err, errHeld):
		return true, nil
	case err != nil && !hasNone(err):
		return false, err
	}
	return false, nil
}
