//go:build unix

package main

import (
	"syscall"
	"time"
)

// processorTime returns the processor time of the process, 0 if unknown.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
