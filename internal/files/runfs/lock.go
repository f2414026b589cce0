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

// unlocked is called instead of taking a lock, unless it is nil.
var unlocked atomic.Pointer[func(path string)]

// NoLocks makes this process write without locks, for file systems that have none (Lustre mounted with noflock, some
// FUSE file systems). Then nothing prevents two processes from writing to the same files. instead is called with the
// path of each lock that would be taken.
func NoLocks(instead func(path string)) { unlocked.Store(&instead) }

// acquire takes the exclusive lock of the file at path, to write to dir; instead says what to do if another process
// holds it. The kernel releases the lock when the process ends in any way, so a left-over file locks nobody out.
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
