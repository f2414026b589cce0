//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

var (
	batchSignals = []os.Signal{syscall.SIGUSR1}

	hangup, brokenPipe os.Signal = syscall.SIGHUP, syscall.SIGPIPE

	errClosedPipe = []error{syscall.EPIPE}
)

// leastFiles is how many open files the Go runtime and a command need; with fewer the runtime itself fails. With two or
// one beyond those that are open it does so before main: the library of protocol buffers, which gorgonia imports, opens
// the executable when a program starts.
const leastFiles = 16

// checkLimits returns an error where the process may open too few files to run at all.
func checkLimits() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err == nil && l.Cur < leastFiles {
		return fmt.Errorf("only %d open files are allowed, at least %d are needed; raise the limit (ulimit -n)",
			l.Cur, leastFiles)
	}
	return nil
}
