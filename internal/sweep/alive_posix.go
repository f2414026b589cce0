//go:build unix && !linux

package sweep

import "syscall"

// alive reports whether a process of this machine exists.
func alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
