package libraries

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// listed reports whether an access control list says who else may write a file.
func listed(path string) bool {
	n, err := syscall.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}

// outside is the number that Linux gives files of users who do not exist in this container (overflowuid), where it is
// one of few users of the machine: -1 on the machine itself, where nobody has that number but the user "nobody".
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
