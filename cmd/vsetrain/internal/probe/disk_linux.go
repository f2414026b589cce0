package probe

import (
	"os"

	"golang.org/x/sys/unix"
)

// dropCache makes the following reads of a synced file bypass the page cache; false if the system cannot do that.
func dropCache(f *os.File) bool {
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) == nil
}
