//go:build unix

package runfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// errHeld is the error of lockFile where another process holds the lock.
const errHeld = unix.EWOULDBLOCK

// lockFile takes the lock of an open file without waiting, alone or shared with others who do not want it alone.
func lockFile(f *os.File, alone bool) error {
	how := unix.LOCK_SH
	if alone {
		how = unix.LOCK_EX
	}
	for {
		if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}
