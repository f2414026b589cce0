//go:build unix

package runfs

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// errHeld is the error of lockFile if another process holds the lock.
const errHeld = unix.EWOULDBLOCK

// flock is a function of the system, which tests replace.
var flock = unix.Flock

// hasNone reports whether an error of lockFile is due to a file system without locks. NFS returns EBADF and EINVAL if
// it cannot pass locks on.
func hasNone(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOSYS, unix.ENOLCK, unix.ENOTSUP, unix.EOPNOTSUPP, unix.EBADF,
		unix.EINVAL}, func(none error) bool { return errors.Is(err, none) })
}

// lockFile takes the lock of an open file without waiting, exclusive (alone) or shared.
func lockFile(f *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	for {
		if err := flock(int(f.Fd()), how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}
