package probe

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache makes the following reads of a synced file bypass the page cache; false if the system cannot do that.
func dropCache(f *os.File) bool {
	_, err := unix.FcntlInt(f.Fd(), unix.F_NOCACHE, 1)
	return err == nil
}
