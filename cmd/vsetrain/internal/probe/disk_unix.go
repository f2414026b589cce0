//go:build linux || darwin

package probe

import "golang.org/x/sys/unix"

// free returns how many bytes this user can write in dir, 0 if unknown.
func free(dir string) int64 {
	var s unix.Statfs_t
	if unix.Statfs(dir, &s) != nil {
		return 0
	}
	return int64(s.Bavail) * int64(s.Bsize)
}
