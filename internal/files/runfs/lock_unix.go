//go:build unix

package runfs

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"vsetrain/internal/files/atomicfile"
	"vsetrain/internal/files/regular"
)

// acquire takes the exclusive lock of the file at path with flock, for what is at dir; instead says what to do where it
// is held. The kernel gives it up when the process ends, however it ends, so a left-over file locks nobody out.
func acquire(dir, path, instead string, owner Owner) (io.Closer, error) {
	err := regular.Check(path)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	}
	if err != nil {
		return nil, wrap("write to", dir, err)
	}
	err = flock(f, unix.LOCK_EX)
	for i := 1; i < lockTries && errors.Is(err, unix.EWOULDBLOCK); i++ {
		time.Sleep(lockPause)
		err = flock(f, unix.LOCK_EX)
	}
	if err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
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

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// isHeld reports whether a process holds the lock of an open lock file for writing.
func isHeld(f *os.File) (bool, error) {
	err := flock(f, unix.LOCK_SH) // given up when f is closed
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
