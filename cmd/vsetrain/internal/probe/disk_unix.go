//go:build linux || darwin

package probe

import "golang.org/x/sys/unix"

// free returns the bytes that this user may still write below dir, 0 when unknown.
func free(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
