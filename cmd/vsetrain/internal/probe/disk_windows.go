package probe

import (
	"os"

	"golang.org/x/sys/windows"
)

// free returns how many bytes this user can write in dir, 0 if unknown.
func free(dir string) int64 {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0
	}
	var n uint64
	if windows.GetDiskFreeSpaceEx(name, &n, nil, nil) != nil {
		return 0
	}
	return int64(n)
}

// dropCache returns false: reads cannot bypass the page cache.
func dropCache(*os.File) bool { return false }
