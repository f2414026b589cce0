package libraries

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// listed reports whether a file has an access control list.
func listed(path string) bool {
	n, err := syscall.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

// outside returns the number that Linux gives files of users who do not exist in this container (overflowuid). It is -1
// outside containers, where only the user "nobody" has that number.
var outside = sync.OnceValue(func() int64 {
	users, err := os.ReadFile("/proc/self/uid_map")
	if f := strings.Fields(string(users)); err != nil || len(f) == 3 && f[0] == "0" && f[2] == "4294967295" {
		return -1
	}
	text, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || bad != nil {
		return -1
	}
	return int64(n)
})
