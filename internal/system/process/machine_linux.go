package process

import (
	"os"
	"strings"
	"sync"
)

// Machine names the place where a process number means the same process: this boot of the system and its process
// namespace. It is empty where neither can be read.
func Machine() string { return machine() }

var machine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	if err != nil || err2 != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
})
