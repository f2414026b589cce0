package process

import (
	"os"
	"strings"
	"sync"
)

// Machine returns a name of this boot of the system and its process namespace, within which a process number means one
// process. It is "" if they cannot be read.
var Machine = sync.OnceValue(func() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, err2 := os.Readlink("/proc/self/ns/pid")
	if err != nil || err2 != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + space
})
