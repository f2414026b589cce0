//go:build unix && !linux

package process

import "syscall"

// Alive reports whether a process of this machine exists.
func Alive(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }
