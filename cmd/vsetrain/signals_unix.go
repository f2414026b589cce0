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

// leastFiles is the number of open files that the Go runtime and a command need. With almost none, the program ends
// before main with a stack trace, because protocol buffers, which gorgonia imports, open the executable.
const leastFiles = 16

// checkLimits returns an error if the process may open too few files to run.
func checkLimits() error {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err == nil && l.Cur < leastFiles {
		return fmt.Errorf("only %d open files are allowed, at least %d are needed; raise the limit (ulimit -n)",
			l.Cur, leastFiles)
	}
	return nil
}
