package runfs

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
)

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
	err = lockFile(f, true)
	for i := 1; i < lockTries && errors.Is(err, errHeld); i++ {
		time.Sleep(lockPause)
		err = lockFile(f, true)
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, errHeld) {
			return nil, lockedError(dir, instead, readOwner(f))
		}
		return nil, &atomicfile.Error{Op: "lock", Path: dir, Err: err, Remedy: "this file system has no locks; " +
			instead}
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

// isHeld reports whether a process holds the lock of an open lock file for writing.
func isHeld(f *os.File) (bool, error) {
	err := lockFile(f, false) // given up when f is closed
	if errors.Is(err, errHeld) {
		return true, nil
	}
	return false, err
}
