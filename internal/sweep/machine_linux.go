package sweep

import (
	"os"
	"strings"
	"sync"
)

// machine names where process numbers mean the same processes: this boot of the system and its process namespace. "" is unknown.
var machine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	if err != nil || err2 != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
})
