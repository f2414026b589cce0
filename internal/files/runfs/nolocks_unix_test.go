//go:build unix

package runfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"vsetrain/lab/try"
)

// A file system without locks is refused by the name of the setting, and is written with it after a warning for each
// lock. Another error is none of a file system without locks, and a lock that is held stays one.
func TestNoLocks(t *testing.T) {
	defer func() { flock = unix.Flock; unlocked.Store(nil) }()
	for _, none := range []error{unix.ENOSYS, unix.ENOLCK, unix.ENOTSUP, unix.EOPNOTSUPP, unix.EBADF, unix.EINVAL} {
		unlocked.Store(nil)
		flock = func(int, int) error { return none }
		dir := filepath.Join(t.TempDir(), "run")
		_, err := Open(dir, Owner{})
		if try.Fails(t, err, "set run.lock to off", "VSETRAIN_RUN_LOCK=off", "--run DIR"); !errors.Is(err, none) {
			t.Errorf("%v: %v", none, err)
		}
		var warned []string
		NoLocks(func(path string) { warned = append(warned, path) })
		d := try.Get(Open(dir, Owner{PID: os.Getpid()}))(t)
		lock := try.Get(Lock(filepath.Join(dir, "x"), "wait"))(t)
		if len(warned) != 2 || warned[0] != dir {
			t.Errorf("%v: warned of %q", none, warned)
		}
		if _, held, err := LockOwner(dir); held || err != nil {
			t.Errorf("%v: held %v (%v)", none, held, err)
		}
		try.Do(t, errors.Join(lock.Close(), d.Close()))
	}
	unlocked.Store(nil)
	flock = func(int, int) error { return unix.EIO }
	if _, err := Open(t.TempDir(), Owner{}); err == nil || strings.Contains(err.Error(), "run.lock") {
		t.Errorf("a broken disk: %v", err)
	}
	flock = func(int, int) error { return errHeld }
	if _, err := Open(t.TempDir(), Owner{}); !errors.Is(err, ErrLocked) {
		t.Errorf("held: %v", err)
	}
}
