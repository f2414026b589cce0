package probe

import (
	"os"

	"golang.org/x/sys/windows"
)

// free returns the bytes that this user may still write below dir, 0 when unknown.
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

// dropCache returns false: reads cannot be made to come from the disk.
func dropCache(*os.File) bool { return false }
